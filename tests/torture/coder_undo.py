"""A coder that is killed while it edits: whatever it had written, the next one takes back.

`python coder_undo.py DIRECTORY` is the coder: three edits in one turn, in a store of its own.
"""

import asyncio
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from dragoman.coder import Coder, ScriptedModel, call
from dragoman.coder.loop import TurnLimits
from dragoman.schema import ClientCapabilities, RequestPermissionRequest
from dragoman.store import Store, durable
from dragoman.testing import RecordingClient, pair

OLD = {"a": "one\n", "b": "left alone\n"}
CALLS = ("write", "pwrite64", "ftruncate", "fsync", "fdatasync", "renameat2", "linkat", "unlinkat", "unlink")
MARK = "/the edits begin"


class Bare(RecordingClient):
    """Lends no files: the coder writes them itself."""

    def capabilities(self) -> ClientCapabilities:
        return ClientCapabilities()


async def edit(top: Path) -> None:
    """Change one file twice and make another."""
    model = ScriptedModel(
        call("read_file", path="a"),
        call("edit_file", path="a", old="one", new="two"),
        call("write_file", path="made", content="made\n"),
        call("edit_file", path="a", old="two", new="three"),
        "Done.",
    )
    kept = durable(Coder, Store(top / "store"))
    async with pair(lambda remote: kept(remote, model=model, limits=TurnLimits()), Bare()) as client:
        session = await client.new_session(top / "project")
        await session.set_mode("code")
        os.path.exists(MARK)
        await session.prompt("Go")
    assert (top / "project" / "a").read_text() == "three\n"


async def undo(top: Path) -> None:
    """Open the session again and take back its last turn; nobody else wrote, so nobody is asked."""
    kept = durable(Coder, Store(top / "store"))
    async with pair(lambda remote: kept(remote, model=ScriptedModel()), Bare(permissions="reject")) as client:
        for info in await client.list_sessions():
            session = await client.load_session(info.session_id, top / "project")
            await session.prompt("/undo")
        assert not [request for request in client.requests if isinstance(request, RequestPermissionRequest)]


def prepare(top: Path) -> None:
    (top / "project").mkdir(parents=True, exist_ok=True)
    for name, text in OLD.items():
        (top / "project" / name).write_text(text)


def texts(top: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (top / "project").iterdir()}


def steps(top: Path) -> list[tuple[str, int]]:
    """The system calls that change something, from the first edit on: each with its number in its thread."""
    prepare(top)
    log = top / "log"
    _strace(top, "-o", str(log), "-e", f"trace={','.join(CALLS)},/stat")
    seen: dict[tuple[str, str], int] = defaultdict(int)
    found: set[tuple[str, int]] = set()
    has_begun = False
    for line in log.read_text(errors="replace").splitlines():
        has_begun = has_begun or MARK in line
        if (made := re.match(r"(\d+) +(\w+)\(", line)) and made[2] in CALLS:
            seen[made[1], made[2]] += 1
            if has_begun:
                found.add((made[2], seen[made[1], made[2]]))
    return sorted(found)


def _strace(top: Path, *options: str) -> int:
    command = ["strace", "-f", "-qq", "--seccomp-bpf", *options, sys.executable, "-B", __file__, str(top)]
    return subprocess.run(command, capture_output=True, timeout=120).returncode


def kill_at(top: Path, chosen: Iterator[tuple[str, int]]) -> Counter[str]:
    """Kill a coder at each of these calls, and undo what it did; counts what the kills left."""
    counts: Counter[str] = Counter()
    for number, (name, when) in enumerate(chosen):
        there = top / str(number)
        prepare(there)
        _strace(there, "-o", os.devnull, "-e", f"trace={name}", "-e", f"inject={name}:signal=KILL:when={when}")
        left = texts(there)
        counts["changed" if left != OLD else "unchanged"] += 1
        asyncio.run(undo(there))
        assert texts(there) == OLD, f"killed at {name} {when}, which left {left}"
    return counts


if __name__ == "__main__":
    asyncio.run(edit(Path(sys.argv[1])))
