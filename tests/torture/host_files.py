"""T29, T30, T34, T37, T38: attackers who swap directories under a workspace, and writers who are killed.

The attacker and the writers are processes of their own, started from this file: `python host_files.py ROLE ...`.
"""

import contextlib
import ctypes
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dragoman.errors import RpcError
from dragoman.host.files import Workspace
from dragoman.host.files import extensions as x

EXCHANGE = 2
AT_FDCWD = -100
SECRET, INSIDE, MARK = "the secret\n", "inside\n", "written by the agent\n"


# An attacker with write access to the workspace, who swaps things while they are being looked at


class Yard:
    """A workspace next to a directory that must not be touched."""

    def __init__(self, top: Path, use_openat2: bool) -> None:
        self.top, self.ws, self.outside = top, top / "ws", top / "outside"
        for directory in (self.ws / "dir" / "deep", self.outside / "deep"):
            directory.mkdir(parents=True)
        for name in ("f", "deep/f", "deep/g"):
            (self.ws / "dir" / name).write_text(INSIDE)
            (self.outside / name).write_text(SECRET)
        (self.ws / "f").write_text(INSIDE)
        (self.ws / "f-link").symlink_to("../outside/f")
        (self.ws / "dir-link").symlink_to("../outside")
        self.workspace = Workspace(self.ws, state=top / "state", use_openat2=use_openat2)

    def outside_now(self) -> dict[str, str]:
        """Everything outside, with its content; what was moved there from inside aside."""
        files = (path for path in self.outside.rglob("*") if path.is_file() and "away" not in path.parts)
        return {str(path.relative_to(self.outside)): path.read_text() for path in files}


Moves = list[tuple[str, str, int]]  # from, to, and how renameat2 is told to do it

ATTACKS: dict[str, Moves] = {
    "a directory and a link to one outside are exchanged": [("ws/dir", "ws/dir-link", EXCHANGE)],
    "a file and a link to one outside are exchanged": [("ws/f", "ws/f-link", EXCHANGE)],
    "both are": [("ws/dir", "ws/dir-link", EXCHANGE), ("ws/f", "ws/f-link", EXCHANGE)],
    "a directory is moved out and back": [("ws/dir/deep", "outside/away", 0), ("outside/away", "ws/dir/deep", 0)],
}


@contextlib.contextmanager
def attacker(top: Path, moves: Moves) -> Iterator[None]:
    """Somebody who renames things as fast as possible, for as long as the block runs."""
    process = subprocess.Popen(
        [sys.executable, __file__, "attack", json.dumps(moves)],
        cwd=top,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin and process.stdout
    try:
        assert process.stdout.readline() == b"moving\n"
        yield
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def attack(moves: Moves) -> None:
    rename = ctypes.CDLL(None, use_errno=True).renameat2
    orders = [(AT_FDCWD, old.encode(), AT_FDCWD, new.encode(), how) for old, new, how in moves]
    for count in itertools.count():
        if count == 1:
            print("moving", flush=True)
        for order in orders:
            if rename(*order):  # a directory has been made there meanwhile
                rename(*order[:4], EXCHANGE)


def read_under_attack(top: Path, tries: int, *, use_openat2: bool, moves: Moves) -> Counter[str]:
    """How often a file inside was read, refused, or a secret leaked, while things were being renamed."""

    def read(workspace: Workspace, path: str) -> str:
        with workspace.reading(path) as file:
            return "leaked" if SECRET in file.read() else "read"

    ways = ("f", "dir/f", "dir/deep/f", "dir/deep/../f", "dir/deep/../../f", "dir/deep/../deep/g", "dir-link/f")
    return _under_attack(Yard(top, use_openat2), ways, tries, moves, read)


def write_under_attack(top: Path, tries: int, *, use_openat2: bool, moves: Moves) -> Counter[str]:
    """The same for writing: `leaked` counts what changed outside."""

    def write(workspace: Workspace, path: str) -> str:
        with workspace.writing(path) as target:
            target.commit(MARK)
        return "written"

    yard = Yard(top, use_openat2)
    before = yard.outside_now()
    ways = ("f", "dir/f", "dir/deep/f", "dir/deep/../new", "dir/made/below", "dir-link/f", "dir-link/new/f")
    counts = _under_attack(yard, ways, tries, moves, write)
    counts["leaked"] += sum(before.get(name) != text for name, text in yard.outside_now().items())
    return counts


def _under_attack(
    yard: "Yard", ways: Sequence[str], tries: int, moves: Moves, attempt: Callable[[Workspace, str], str]
) -> Counter[str]:
    paths = [str(yard.ws / way) for way in ways]
    counts: Counter[str] = Counter()
    with yard.workspace as workspace, attacker(yard.top, moves):
        for path in itertools.islice(itertools.cycle(paths), tries):
            try:
                counts[attempt(workspace, path)] += 1
            except RpcError:
                counts["refused"] += 1
    return counts


def check_then_open_under_attack(top: Path, tries: int, *, enough: int) -> int:
    """How often the usual way leaks (look at the real path, then open it): the attacker is worth the name."""
    yard = Yard(top, use_openat2=True)
    yard.workspace.close()
    path, leaks = yard.ws / "dir" / "f", 0
    with attacker(top, ATTACKS["a directory and a link to one outside are exchanged"]):
        for _ in range(tries):
            with contextlib.suppress(OSError):  # readlink fails when the link is a directory again
                if os.path.realpath(path).startswith(f"{yard.ws}/"):
                    leaks += path.read_text() == SECRET
            if leaks == enough:
                break
    return leaks


# Writers who are killed


class Nursery:
    """Starts writers by forking one process that has everything loaded, so that thousands can be killed."""

    def __init__(self, top: Path) -> None:
        self.top = top
        (top / "ws").mkdir()
        self._process = subprocess.Popen(
            [sys.executable, __file__, "nurse", str(top)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def start(self, role: str, at: int = 0) -> int:
        """A new writer; with `at` it kills itself at that line of code.  Its process id, once it writes."""
        return int(self._order([role, at]))

    def bury(self) -> int:
        """Wait for the writer's end: the last write it was told had succeeded."""
        return int(self._order(["bury"]))

    def _order(self, order: list[object]) -> str:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()

    def __enter__(self) -> "Nursery":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def nurse(top: Path) -> None:
    pid, acks = 0, -1
    for line in sys.stdin:
        role, *arguments = json.loads(line)
        if role == "bury":
            os.waitpid(pid, 0)
            print((os.read(acks, 1 << 16).split() or [b"0"])[-1].decode(), flush=True)
            os.close(acks)
            continue
        acks, told = os.pipe()
        begun, begin = os.pipe()
        pid = os.fork()
        if pid == 0:
            write_for_ever(top, role, *arguments, told=told, begin=begin)
        os.close(told)
        os.close(begin)
        os.read(begun, 1)
        os.close(begun)
        print(pid, flush=True)


def write_for_ever(top: Path, role: str, at: int, *, told: int, begin: int) -> None:
    """One version after the other; every finished one is told."""
    if role == "recover":
        die_at_line(at)
    workspace = Workspace(top / "ws", state=top / "state")
    os.write(begin, b"!")
    if role == "recover":
        os.write(told, b"%d\n" % newest(top / "ws"))
        os._exit(0)
    if at:
        die_at_line(at)
    first = newest(top / "ws") + 1
    for version in range(first, first + (1 if at else 1_000_000)):
        if role == "overwrite":
            with workspace.writing(str(top / "ws" / "file")) as target:
                target.commit(content("file", version))
        else:
            with workspace.editing(edits(top / "ws", version)) as several:
                several.commit()
        os.write(told, b"%d\n" % version)
    os._exit(0)


def die_at_line(number: int) -> None:
    """Have this process killed at that line of the code under test, counted from here."""
    count = itertools.count(1)

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if "/dragoman/host/" not in frame.f_code.co_filename:
            return None
        if event == "line" and next(count) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


NEVER = 10**9  # a line no writer gets to


def content(name: str, version: int) -> str:
    return f"{name} {version}\n" * 3000


def edits(ws: Path, version: int) -> list[x.FileEdit]:
    """The next version of all files: two that change, one to be made at first, two that come and go."""
    here, gone = ("odd.txt", "even.txt") if version % 2 else ("even.txt", "odd.txt")
    wanted: list[x.FileEdit] = [
        x.WriteEdit(path=str(ws / name), content=content(name, version)) for name in ("a.txt", "b.txt", "new/c.txt")
    ]
    wanted.append(x.WriteEdit(path=str(ws / here), content=content(here, version)))
    if (ws / gone).exists():
        wanted.append(x.DeleteEdit(path=str(ws / gone)))
    return wanted


def newest(ws: Path) -> int:
    """The version on the disk, 0 if there is none yet."""
    for name in ("file", "a.txt"):
        if (ws / name).exists():
            return int((ws / name).read_text().split("\n")[0].split()[1])
    return 0


def whole_set(ws: Path) -> int:
    """The version all files have; an assertion fails when they are not of one version, or not whole."""
    files = {str(path.relative_to(ws)): path.read_text() for path in ws.rglob("*") if path.is_file()}
    version = newest(ws)
    here = ("odd.txt" if version % 2 else "even.txt",)
    names = ("file",) if "file" in files else ("a.txt", "b.txt", "new/c.txt", *here) if version else ()
    assert files == {name: content(name, version) for name in names}, sorted(files)
    if not version:
        assert not list(ws.iterdir()), "directories of a change that was undone"
    return version


def leftovers(top: Path) -> list[str]:
    """What lies about that belongs to no live process."""
    temps = [str(path) for path in (top / "ws").rglob(".dragoman-*")]
    return temps + [str(path) for path in (top / "state").rglob("*") if path.is_file()]


def kill_writers(top: Path, kills: int, *, role: str, longest: float, seed: int = 1) -> Counter[str]:
    """Kill so many writers at any moment; after each, the next start finds everything old or everything new."""
    counts: Counter[str] = Counter()
    moments = random.Random(seed)
    with Nursery(top) as nursery:
        version = 0
        for _ in range(kills):
            pid = nursery.start(role)
            time.sleep(moments.uniform(0, longest))  # not to wait for anything: this is the moment
            os.kill(pid, signal.SIGKILL)
            version, outcome = after_death(nursery, version)
            counts[outcome] += 1
    return counts


def kill_writers_at_every_step(top: Path, *, role: str, stride: int, over_old: bool) -> Counter[str]:
    """Kill a writer at each line of code it goes through (or each so many-th), until one lives through all."""
    counts: Counter[str] = Counter()
    with Nursery(top) as nursery:
        version = 0
        if over_old:
            nursery.start(role, NEVER)
            version, _ = after_death(nursery, version)
        for step in itertools.count(1, stride):
            nursery.start(role, step)
            after, outcome = after_death(nursery, version)
            assert after in (version, version + 1)
            version = after
            counts[outcome] += 1
            if outcome == "told":
                return counts
    raise AssertionError


def kill_recovery_at_every_step(top: Path, *, stride: int) -> Counter[str]:
    """Kill one who changes several files, then the one who clears up after it, at each line of code."""
    counts: Counter[str] = Counter()
    with Nursery(top) as nursery:
        nursery.start("edit", NEVER)
        version, _ = after_death(nursery, 0)
        for step in itertools.count(1, stride):
            pid = nursery.start("edit")
            while len(list((top / "ws").rglob(".dragoman-*"))) < 4:  # all is prepared, or nearly
                os.sched_yield()
            os.kill(pid, signal.SIGKILL)
            nursery.bury()
            nursery.start("recover", step)
            version, outcome = after_death(nursery, version)
            counts[outcome] += 1
            if outcome == "told":
                return counts
    raise AssertionError


def after_death(nursery: Nursery, before: int) -> tuple[int, str]:
    """Start again after a writer's death: the version there is now, and what the writer left behind."""
    top = nursery.top
    told = nursery.bury()
    has_left_something = bool(leftovers(top))
    Workspace(top / "ws", state=top / "state").close()
    version = whole_set(top / "ws")
    assert version >= max(told, before), f"version {told} was told to be there, but {version} is"
    assert not leftovers(top), leftovers(top)
    return version, "told" if told else "left something" if has_left_something else "left nothing"


# Disks that fail


def fail_calls(top: Path, *, role: str, call: str, error: str, most: int = 1000) -> Counter[str]:
    """Have the kernel fail a system call, the first one, then the second, until there are no more of them.

    Whoever is told of an error finds everything as it was; and whoever is not, everything new.
    """
    counts: Counter[str] = Counter()
    (top / "ws").mkdir()
    assert write_once(top, role) == 0
    log = top / "calls"
    for number in range(1, most + 1):
        version = newest(top / "ws")
        command = ["strace", "-f", "-qq", "-o", log, "-e", f"trace={call}"]
        command += ["-e", f"inject={call}:error={error}:when={number}"]
        process = subprocess.run(
            [*command, sys.executable, "-B", __file__, "once", role, str(top)], capture_output=True
        )
        if "INJECTED" not in log.read_text():
            assert process.returncode == 0
            return counts
        assert process.returncode in (0, 1), "neither done nor refused"
        Workspace(top / "ws", state=top / "state").close()
        assert whole_set(top / "ws") == version + (process.returncode == 0)
        assert not leftovers(top), leftovers(top)
        counts["refused" if process.returncode else "done all the same"] += 1
    return counts


def write_once(top: Path, role: str) -> int:
    version = newest(top / "ws") + 1
    try:
        with Workspace(top / "ws", state=top / "state") as workspace:
            if role == "overwrite":
                with workspace.writing(str(top / "ws" / "file")) as target:
                    target.commit(content("file", version))
            else:
                with workspace.editing(edits(top / "ws", version)) as several:
                    several.commit()
    except RpcError:
        return 1
    return 0


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["attack", moves]:
            attack(json.loads(moves))
        case ["nurse", directory]:
            nurse(Path(directory))
        case ["once", role, directory]:
            sys.exit(write_once(Path(directory), role))
