"""T61, T66: agents killed after a random byte; what their client had seen is told again, in order, exactly once."""

import json
import os
import random
import re
import signal
import sqlite3
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from .store_nursery import Nursery

CYCLES_PER_SESSION = 25
WORDS = 40  # of a turn
REACH = 14_000  # bytes within which an agent is killed: mostly in a turn, sometimes before it, sometimes after it
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # a kill is no power cut: it need not be a disk
UPDATE = b'"update":'


def kill_agents(cycles: int, seed: int, level: str = "process") -> Counter[str]:
    """Kill so many agents; fails at the first update that is lost, told twice or out of order."""
    print(f"store: {cycles} kills, seed {seed}, level {level}")
    chance, counts = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        nursery = Nursery(Path(directory), level)
        try:
            session = Session(nursery)
            for cycle in range(cycles):
                if cycle and cycle % CYCLES_PER_SESSION == 0:
                    session.check(counts)
                    session = Session(nursery)
                session.be_killed(chance, cycle, counts)
                if cycle % 100 == 99:
                    check_integrity(Path(directory) / "store")
            session.check(counts)
        finally:
            nursery.close()
        check_integrity(Path(directory) / "store")
    return counts


class Session:
    """A session, what its client knows of it, and one agent process after the other."""

    def __init__(self, nursery: Nursery) -> None:
        self._nursery = nursery
        self._known: list[bytes] = []  # all that was ever shown, in order
        wire = Wire(nursery)
        self.id = wire.ask("session/new", {"cwd": "/", "mcpServers": []}, None)["sessionId"]
        wire.end()

    def be_killed(self, chance: random.Random, number: int, counts: Counter[str]) -> None:
        """Load, prompt, and be killed somewhere on the way."""
        before = self._nursery.ran()
        wire = Wire(self._nursery)
        told = 0
        try:
            where = wire.received  # after the handshake
            self._load(wire, where + chance.randrange(REACH) if chance.random() < 0.1 else None)
            told = len(self._known)
            left = wire.received + chance.randrange(REACH)
            prompt = [{"type": "text", "text": f"{number} {WORDS}"}]
            wire.ask("session/prompt", {"sessionId": self.id, "prompt": prompt}, left)
            counts["survived"] += 1
        except Killed:
            counts["killed in a turn" if told else "killed while loading"] += 1
        seen = wire.end()
        if told:
            self._known += seen[wire.told :]
            counts["shown"] += len(seen) - wire.told
        after = self._nursery.ran()
        assert after in (before, before + b"%d\n" % number), "something ran twice, or again"

    def check(self, counts: Counter[str]) -> None:
        """Load once more, undisturbed."""
        wire = Wire(self._nursery)
        before = self._nursery.ran()
        self._load(wire, None)
        wire.end()
        assert self._nursery.ran() == before, "something ran again"
        counts["loaded"] += len(self._known)

    def _load(self, wire: "Wire", left: int | None) -> None:
        params = {"sessionId": self.id, "cwd": "/", "mcpServers": []}
        wire.ask("session/load", params, left)
        told = [update for update in wire.updates if not update.startswith(b'{"sessionUpdate":"user_')]
        assert told[: len(self._known)] == self._known, "what was shown is no beginning of what is told again"
        check_whole(told)
        wire.told = len(wire.updates)
        self._known = told


def check_whole(told: list[bytes]) -> None:
    """Every turn's words are there from the first on, each once and in order, and no tool seems to run."""
    words: dict[str, int] = {}
    tools: dict[str, str] = {}
    for update in map(msgspec.json.decode, told):
        match update:
            case {"content": {"text": text}} if found := re.fullmatch(r"(\d+)\.(\d+) ", text):
                assert int(found[2]) == words.get(found[1], -1) + 1, f"{text} after {words.get(found[1])}"
                words[found[1]] = int(found[2])
            case {"toolCallId": id}:
                tools[id] = update.get("status") or tools.get(id, "pending")
    assert not {"pending", "in_progress"} & set(tools.values()), "a tool seems to run"


class Killed(Exception):
    """The agent is no more."""


class Wire:
    """A client that counts bytes, and kills when it has had enough of them."""

    def __init__(self, nursery: Nursery) -> None:
        self._to, self._from, self.pid = nursery.born()
        self._buffer = b""
        self._id = 0
        self.received = 0
        self.told = 0  # how many updates were a replay
        self.updates: list[bytes] = []
        self.ask("initialize", {"protocolVersion": 1}, None)

    def ask(self, method: str, params: dict[str, Any], left: int | None) -> Any:
        """Ask, and read until the answer is there; or until so many bytes have come in all, and then kill."""
        self._id += 1
        message = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        os.write(self._to, json.dumps(message).encode() + b"\n")
        while True:
            if left is not None and self.received >= left:
                os.kill(self.pid, signal.SIGKILL)
                raise Killed
            data = os.read(self._from, 65536 if left is None else max(1, min(65536, left - self.received)))
            assert data, "the agent ended by itself"
            for line in self._lines(data):
                if line.startswith(b'{"jsonrpc":"2.0","id":'):
                    answer = json.loads(line)
                    assert "result" in answer, answer
                    return answer["result"]

    def end(self) -> list[bytes]:
        """Hang up and read what is still in the pipe; gives all updates seen."""
        os.close(self._to)
        while data := os.read(self._from, 65536):
            list(self._lines(data))
        os.close(self._from)
        return self.updates

    def _lines(self, data: bytes) -> list[bytes]:
        self.received += len(data)
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            if (start := line.find(UPDATE)) > 0:
                self.updates.append(line[start + len(UPDATE) : -2])
        return lines


def check_integrity(store: Path) -> None:
    db = sqlite3.connect(store / "sessions.db")
    try:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        db.close()
