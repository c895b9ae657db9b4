"""One flipped bit in every byte of a small store, opened by an agent and by the command line."""

import argparse
import asyncio
import contextlib
import io
import json
import logging
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from dragoman import Agent, Turn, connect
from dragoman import schema as s
from dragoman.cli import sessions
from dragoman.errors import RpcError
from dragoman.store import Store, durable

MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # it need not be a disk
FILE, PAGE = "sessions.db", 4096


class Talker(Agent):
    async def answer(self, turn: Turn) -> None:
        turn.session.state["said"] = [*turn.session.state.get("said", []), turn.text]
        await turn.say(f"<{turn.text}>")


def flip_bytes(count: int, seed: int) -> Counter[str]:
    """Flip a bit of so many bytes, half of them in the first page, and of each page's head, in a store each."""
    logging.getLogger("dragoman").setLevel(logging.CRITICAL)
    try:
        with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
            whole = Path(directory) / "whole"
            told = asyncio.run(_grown(whole))
            size, first = (whole / FILE).stat().st_size, seed % 7
            half = max(1, count // 2)
            places = {
                *range(16, 24),
                *(
                    page + byte for page in range(PAGE, size, PAGE) for byte in (0, 3, 4)
                ),  # what it is, how many rows
                *range(first, PAGE, -(-PAGE // half)),
                *range(PAGE + first, size, -(-(size - PAGE) // half)),
            }
            return asyncio.run(_flip_all(Path(directory), told, sorted(places)))
    finally:
        logging.getLogger("dragoman").setLevel(logging.NOTSET)


async def _grown(whole: Path) -> dict[str, str]:
    """A store of one page for each table; gives what each session says."""
    told = {}
    async with connect(durable(Talker, Store(whole))) as client:
        for name in ("one", "two", "three"):
            session = await client.new_session("/")
            await session.prompt(name)
            told[session.id] = f"<{name}>"
    return told


async def _flip_all(directory: Path, told: dict[str, str], places: Iterable[int]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for place in places:
        for reader in (_by_agent, _by_command):
            copy = directory / "copy"
            shutil.copytree(directory / "whole", copy)
            data = bytearray((copy / FILE).read_bytes())
            data[place] ^= 1 << place % 8
            (copy / FILE).write_bytes(data)
            try:
                counts.update(await reader(copy, told))
            except BaseException as exc:
                exc.add_note(f"byte {place}, {reader.__name__}")
                raise
            shutil.rmtree(copy)
    return counts


async def _by_agent(path: Path, told: dict[str, str]) -> Counter[str]:
    """What becomes of each session when an agent has it; the others are never the worse for it."""
    outcomes: Counter[str] = Counter()
    async with connect(durable(Talker, Store(path))) as client:
        listed = {one.session_id for one in await client.list_sessions()}
        for id, said in told.items():
            try:
                session = await client.load_session(id, "/")
                texts = [u.content.text for u in session.backlog() if isinstance(u, s.AgentMessageChunk)]
                is_told = any("amaged" in text for text in texts)
                outcomes["whole" if said in texts else "damaged" if is_told else "silent"] += 1
            except RpcError as exc:
                assert "corrupted" in str(exc), f"not told that it is damage: {exc}"
                outcomes["refused"] += 1
        outcomes["unlisted"] += len(told.keys() - listed)
        assert outcomes["whole"] >= len(told) - 1, f"one flip took more than one session: {outcomes}"
        assert outcomes["silent"] == 0
        await (await client.new_session("/")).prompt("on")
    return outcomes


async def _by_command(path: Path, told: dict[str, str]) -> Counter[str]:
    """What the command line says of a store; it never ends in an exception."""
    code, listed, _ = _ran("list", "--json", "--store", str(path))
    ids = {json.loads(line)["sessionId"] for line in listed.splitlines()}
    assert code == 0 and len(ids & told.keys()) >= len(told) - 1, f"{code}: {listed}"
    shown = [_ran("show", id, "--store", str(path))[1] for id in told]
    whole = sum(said in text for said, text in zip(told.values(), shown, strict=True))
    assert whole >= len(told) - 1, shown
    code, _, complaint = _ran("verify", "--store", str(path))
    assert code in (0, 1), complaint
    if whole < len(told):
        assert code == 1, "verified as whole, and it is not"
    return Counter({"verified": code == 0, "not verified": code == 1})


def _ran(*arguments: str) -> tuple[int, str, str]:
    """A command of `dragoman sessions`, run here: what escapes it would be a traceback."""
    parser = argparse.ArgumentParser()
    sessions.add_to(parser.add_subparsers())
    parsed = parser.parse_args(["sessions", *arguments])
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code: int = parsed.command(parsed)
    return code, out.getvalue(), err.getvalue()
