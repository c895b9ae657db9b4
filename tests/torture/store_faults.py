"""T67, T68, T69: each call of the disk fails, or is the last; what the client was shown is stored all the same."""

import asyncio
import contextlib
import json
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dragoman import connect
from dragoman import schema as s
from dragoman.store import Store, durable
from dragoman.store.database import migrations
from dragoman.store.database.database import Database

from .store_damage import MEMORY, Chronicler
from .store_scenario import DOOMED, KEPT, migrate, prepare
from .workers import with_tests

CALLS = "pwrite64,fsync,fdatasync,ftruncate,rename,unlink,mkdir,link"
TRACING = ("-e", f"trace={CALLS}")
SCENARIOS = ("talking", "mending", "migrating")
FAULTS = ("error=ENOSPC", "error=EIO", "error=ENOSPC+", "error=EIO+", "signal=KILL")  # `+`: and all that follow
WORDS_KEPT = [f"<{KEPT}.{number}>" for number in range(40)]


class Fault(NamedTuple):
    """What goes wrong: at which call of a scenario, and how."""

    scenario: str
    how: str
    call: str
    when: int  # the first such call of a thread, the second, …


def works() -> bool:
    """Whether calls can be made to fail here."""
    try:
        done = subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, timeout=10, check=False)
    except OSError:
        return False
    return done.returncode == 0


class Site:
    """The stores the scenarios begin with, made once, and everything that can go wrong with them."""

    def __init__(self, directory: Path) -> None:
        self.whole, self._damaged = directory / "whole", directory / "damaged"
        self.ids: dict[str, str] = {}

    async def prepared(self) -> "Site":
        self.ids = await prepare(str(self.whole))
        shutil.copytree(self.whole, self._damaged)
        with (self._damaged / "sessions.db").open("r+b") as file:
            file.write(b"?" * 100)
        return self

    async def faults(self, scenario: str) -> list[Fault]:
        """All that can go wrong: each call of the disk that a scenario makes when all is well, in each way."""
        async with self.ran(Fault(scenario, "", "", 0)) as (_, log, report):
            assert report[-1] == {"ended": ""}, report[-1]
            assert not [said for said in report if "refused" in said]
            calls = Counter(re.findall(r"^(\d+) +(\w+)\(", log.read_text(), re.MULTILINE))
        counts = {call: max(count for (_, name), count in calls.items() if name == call) for _, call in calls}
        places = [(call, when) for call, count in counts.items() for when in range(1, count + 1)]
        return [Fault(scenario, how, *place) for how in FAULTS for place in places]

    async def suffer(self, fault: Fault) -> Counter[str]:
        """Have something go wrong once and look at what is left."""
        async with self.ran(fault) as (store, _, report):
            try:
                return await self._outcome(fault, store, report)
            except BaseException as exc:
                exc.add_note(f"{fault}: {report}")
                raise

    @contextlib.asynccontextmanager
    async def ran(self, fault: Fault):  # type: ignore[no-untyped-def]
        """Run a scenario; gives its store, the log of its calls and its report."""
        with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
            store, log, report = (Path(directory) / name for name in ("store", "log", "report"))
            shutil.copytree(self._damaged if fault.scenario == "mending" else self.whole, store)
            report.touch()
            where = f"{fault.when}{'+' * fault.how.endswith('+')}"
            inject = ["-e", f"inject={fault.call}:{fault.how.rstrip('+')}:when={where}"] if fault.how else []
            fast = [] if "KILL" in fault.how else ["--seccomp-bpf"]  # with which no signal is sent
            program = [sys.executable, "-m", "torture.store_scenario", fault.scenario, json.dumps(self.ids)]
            process = await asyncio.create_subprocess_exec(
                *("strace", *fast, "-f", "-qq", "-o", log, *TRACING, *inject),
                *(*program, store, report),
                env=with_tests(),
                stderr=subprocess.PIPE,
            )
            _, errors = await asyncio.wait_for(process.communicate(), 120)
            told = [json.loads(line) for line in report.read_text().splitlines()]
            assert process.returncode in ((0, -9) if "KILL" in fault.how else (0,)), errors.decode()
            yield store, log, told

    async def _outcome(self, fault: Fault, store: Path, report: list[dict[str, str]]) -> Counter[str]:
        shown: dict[str, list[str]] = defaultdict(list)
        for said in report:
            if "shown" in said:
                shown[said["session"]].append(said["shown"])
        done = {said["done"] for said in report if "done" in said}
        refused = [said for said in report if "refused" in said]
        if fault.how.startswith("error") and not fault.how.endswith("+"):
            assert len(refused) <= 2, "one failure is felt for long"
            assert report[-1] == {"ended": ""}, "it did not go on"
        await self._check(store, shown, done)
        _check_files(store, is_new=fault.scenario == "mending")
        return Counter(
            {
                "shown": sum(map(len, shown.values())),
                "refused": len(refused),
                "ended early": "ended" not in report[-1],
            }
            if report
            else {"never begun": 1}
        )

    async def _check(self, store: Path, shown: dict[str, list[str]], done: set[str]) -> None:
        async with connect(durable(Chronicler, Store(store))) as client:
            listed = {one.session_id: one for one in await client.list_sessions()}
            assert self.ids[KEPT] in listed
            assert listed.keys() >= shown.keys()
            for id in listed:
                backlog = (await client.load_session(id, "/")).backlog()
                texts = [u.content.text.rstrip("x") for u in backlog if isinstance(u, s.AgentMessageChunk)]  # type: ignore[union-attr]
                told = [text for text in texts if text.startswith("<")]
                assert len(set(told)) == len(told), "something is told twice"
                assert [text for text in told if text in set(shown[id])] == shown[id], "something shown is gone"
                if id == self.ids[KEPT]:
                    assert told[: len(WORDS_KEPT)] == WORDS_KEPT
            if "title" in done:
                assert listed[self.ids[KEPT]].title == "My title"
        if "delete" in done:
            assert self.ids[DOOMED] not in listed
            assert f"<{DOOMED}.".encode() not in b"".join(
                path.read_bytes() for path in store.rglob("*") if path.is_file()
            )


def _check_files(store: Path, *, is_new: bool) -> None:
    """What failed to be written is no damage, and nothing that was begun is left lying about."""
    names = {path.name for path in store.iterdir()}
    assert {name.partition("-")[0] for name in names} <= {
        *("sessions.db", "lock", "presence", "tip", "holders"),
        *(["damaged"] if is_new else []),
    }
    with contextlib.closing(Database(store)) as db:
        found = [problem for _, problem in db.verify() if not is_new]
        assert not found, found


async def suffer_all(faults: list[Fault], site: Site, workers: int = 2) -> Counter[str]:
    """Have everything in a list go wrong with a scenario, several at a time."""
    todo, counts = list(reversed(faults)), Counter[str]()

    async def work() -> None:
        while todo:
            counts.update(await site.suffer(todo.pop()))

    with _as_a_later_version(faults[0].scenario == "migrating"), _without_complaints():
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(work())
    return counts


@contextlib.contextmanager
def _as_a_later_version(is_later: bool) -> Iterator[None]:
    steps = migrations.STEPS
    if is_later:
        migrate()
    try:
        yield
    finally:
        migrations.STEPS = steps


@contextlib.contextmanager
def _without_complaints() -> Iterator[None]:
    """The store's are as they should be."""
    logging.getLogger("dragoman").setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logging.getLogger("dragoman").setLevel(logging.NOTSET)
