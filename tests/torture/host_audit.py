"""Audit logs that are tampered with, torn, shared and killed."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from dragoman.host.audit import AuditLog, verify
from dragoman.host.audit.chain import read_line, seal_path

WRITER = """
import sys
from dragoman.host.audit import AuditLog
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
log = AuditLog(path)
for number in range(count):
    log.append({"event": "decision", "decision": "allow", "writer": name, "number": number})
    print(number, flush=True)
"""


def written(path: Path, count: int) -> Path:
    """A log of that many records, and the one that every log begins with."""
    with AuditLog(path) as log:
        for number in range(count):
            log.append({"event": "decision", "decision": "deny", "argv": ["npm", "test", str(number)]})
    return path


def records(path: Path) -> list[dict[str, object]]:
    """The records of a log that are what was written."""
    lines = path.read_bytes().splitlines(keepends=True)
    return [dict(record.fields) for line in lines if (record := read_line(line))]


# Tampering: each takes the lines of a log and gives what somebody made of them.


def _change_byte(lines: list[bytes], chance: random.Random) -> bytes:
    data = bytearray(b"".join(lines))
    place = chance.randrange(len(data))
    data[place] ^= 1 << chance.randrange(8)
    return bytes(data)


def _remove_line(lines: list[bytes], chance: random.Random) -> bytes:
    place = chance.randrange(len(lines))
    return b"".join(lines[:place] + lines[place + 1 :])


def _swap_lines(lines: list[bytes], chance: random.Random) -> bytes:
    one, two = chance.sample(range(len(lines)), 2)
    lines[one], lines[two] = lines[two], lines[one]
    return b"".join(lines)


def _repeat_line(lines: list[bytes], chance: random.Random) -> bytes:
    lines.insert(chance.randrange(len(lines) + 1), chance.choice(lines))
    return b"".join(lines)


def _cut_short(lines: list[bytes], chance: random.Random) -> bytes:
    data = b"".join(lines)
    return data[: chance.randrange(len(data))]


def _cut_beginning(lines: list[bytes], chance: random.Random) -> bytes:
    return b"".join(lines[chance.randrange(1, len(lines)) :])


def _insert_byte(lines: list[bytes], chance: random.Random) -> bytes:
    data = b"".join(lines)
    place = chance.randrange(len(data) + 1)
    return data[:place] + bytes([chance.randrange(256)]) + data[place:]


def _drop_byte(lines: list[bytes], chance: random.Random) -> bytes:
    data = b"".join(lines)
    place = chance.randrange(len(data))
    return data[:place] + data[place + 1 :]


TAMPERINGS: tuple[Callable[[list[bytes], random.Random], bytes], ...] = (
    _change_byte, _remove_line, _swap_lines, _repeat_line, _cut_short, _cut_beginning, _insert_byte, _drop_byte
)  # fmt: skip


def tamper(directory: Path, count: int, seed: int = 100) -> list[str]:
    """Tamper with a log that many times; gives what was not found, at once and after the log was written on."""
    chance = random.Random(seed)
    path = written(directory / "audit.jsonl", 12)
    original, seal = path.read_bytes(), seal_path(path).read_bytes()
    missed = []
    for number in range(count):
        tampering = TAMPERINGS[number % len(TAMPERINGS)]
        data = tampering(original.splitlines(keepends=True), chance)
        if data == original:
            continue
        path.write_bytes(data)
        seal_path(path).write_bytes(seal)
        if not verify(path):
            missed.append(f"{number}: {tampering.__name__}")
        with AuditLog(path) as log:
            log.append({"event": "decision", "decision": "deny"})
        if not verify(path):
            missed.append(f"{number}: {tampering.__name__}, written on")
    return missed


def tears(directory: Path) -> Iterator[tuple[int, list[str], int]]:
    """A log whose last write was torn after each of its bytes: the place, the problems, the repairs told of."""
    path = written(directory / "audit.jsonl", 3)
    whole, seal = path.read_bytes(), seal_path(path).read_bytes()
    written(path, 1)
    last = path.read_bytes()[len(whole) :]
    for size in range(len(last)):
        path.write_bytes(whole + last[:size])
        seal_path(path).write_bytes(seal)
        written(path, 1)
        repairs = sum(record["event"] == "repaired" for record in records(path))
        yield size, [str(problem) for problem in verify(path)], repairs


def start(path: Path, name: str, count: int) -> "subprocess.Popen[bytes]":
    """A process of its own that appends to a log and says so after each record."""
    return subprocess.Popen([sys.executable, "-c", WRITER, str(path), name, str(count)], stdout=subprocess.PIPE)


def kills(directory: Path, count: int, seed: int = 9) -> tuple[int, int, list[str]]:
    """Kill a writer without warning that many times: acknowledged records, how many of them are lost, problems."""
    chance = random.Random(seed)
    path = directory / "audit.jsonl"
    acknowledged: set[tuple[str, int]] = set()
    for cycle in range(count):
        with start(path, str(cycle), 1000) as writer:
            assert writer.stdout is not None
            for _ in range(chance.randrange(1, 20)):
                acknowledged.add((str(cycle), int(writer.stdout.readline())))
            os.kill(writer.pid, signal.SIGKILL)
            for line in writer.stdout:
                acknowledged.add((str(cycle), int(line)))
    kept = {(record["writer"], record["number"]) for record in records(path) if "writer" in record}
    return len(acknowledged), len(acknowledged - kept), [str(problem) for problem in verify(path)]


def share(directory: Path, writers: int, count: int) -> tuple[int, list[str]]:
    """Several processes append to one log at once: how many records there are in the end, and the problems."""
    path = directory / "audit.jsonl"
    processes = [start(path, str(number), count) for number in range(writers)]
    for process in processes:
        with process:
            process.communicate()
    return len(records(path)), [str(problem) for problem in verify(path)]
