"""Two people on one gateway whose agents try for each other's canary, and for the gateway's, at random.

Each person has a directory with a canary in it.  Agents swap directories for links, link, rename and move things,
also while a session is opened, and then read and write through everything that they can name: the host's files, its
terminals, their own process.  Their clients open, load and delete sessions, also by each other's ids, connect anew
and answer questions for ever.  Agents are killed and gateways restarted.  Whatever anybody is told is searched for
canaries of others.
"""

import asyncio
import contextlib
import json
import os
import random
import secrets
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from ordinary import OWNER

from dragoman.errors import RpcError
from dragoman.gateway.access.checks import Checks
from dragoman.schema import RequestPermissionRequest, RequestPermissionResponse, SelectedPermissionOutcome

from .house import House, Watcher, hosting

AGENT = ["/usr/bin/python3", "-c", Path(__file__).with_name("thief.py").read_text()]
BATCH = 16  # steps of an agent in one prompt
NAMES = ("a", "b", "c", "d")  # of directories in a workspace


class Agreeing(Watcher):
    """Says yes to everything, some of it for ever."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        self._rng = rng

    async def request_permission(self, params: RequestPermissionRequest) -> RequestPermissionResponse:
        wanted = self._rng.choice(["allow_once", "allow_always"])
        kinds = {option.kind: option.option_id for option in params.options}
        chosen = kinds.get(wanted) or kinds["allow_once"]
        return RequestPermissionResponse(outcome=SelectedPermissionOutcome(option_id=chosen))


class Person:
    def __init__(self, name: str, other: str, top: Path, rng: random.Random) -> None:
        self.name, self.other, self.top, self.rng = name, other, top, rng
        self.root, self.canary = top / "work" / name, f"canary-{secrets.token_hex(8)}"
        self.sessions: list[Any] = []
        self.heard: list[str] = []  # all that this person was told
        for directory in (self.root, *(self.root / each for each in NAMES)):
            directory.mkdir(parents=True, mode=0o700, exist_ok=True)
            (directory / "note.txt").write_text(self.canary)
        if os.geteuid() == 0:
            for path in (self.root, *self.root.rglob("*")):
                os.chown(path, *OWNER)

    def target(self) -> str:
        """Where a link may lead that is not this person's."""
        top, other = self.top, self.other
        ways = (
            f"../{other}",
            f"../../work/{other}",
            f"{top}/work/{other}",
            f"{top}/state",
            "../../state",
            "../../..",
        )
        more = ("/", "/proc/self/cwd", f"/proc/1/root{top}/state", f"/proc/self/root{top}")
        return self.rng.choice((*ways, *more, *NAMES))

    def path(self) -> str:
        rng = self.rng
        start = rng.choice((str(self.root), *(f"{self.root}/{name}" for name in NAMES)))
        if rng.random() < 0.2:
            start = rng.choice(
                (f"{self.top}/work/{self.other}", f"{self.top}/state", f"{self.root}/../{self.other}")
            )
        return start + rng.choice(("", "", "/a", "/b", "/..", "/../..", f"/../{self.other}", "/link"))

    def mischief(self) -> str:
        """One thing that an agent does to its own directory, in words of a shell."""
        rng, root = self.rng, self.root
        one, two = (f"{root}/{name}" for name in rng.sample(NAMES, 2))
        target = self.target()
        return rng.choice(
            (
                f"mv {one} {one}.old; ln -sfn {target} {one}",
                f"ln -sfn {target} {root}/link; ln -sfn {target} {one}/link",
                f"ln {self.top}/work/{self.other}/note.txt {self.top}/state/gateway.db {one}/",
                f"mv {one} {two}",
                f"rm -rf {one}; mkdir -p {one}; echo {self.canary} > {one}/note.txt",
                f"rm -rf {root}/link {one}.old; mv {two} {one}.old; mv {one}.old {two}",
                f"printf 'mv {one} {one}.x; ln -s {target} {one}' > {root}/.on-open",
                f"rm -f {root}/.on-open; mkdir -p {one}; echo {self.canary} > {one}/note.txt",
                f"(i=0; while [ $i -lt 50 ]; do ln -sfn {target} {root}/flip; rm {root}/flip; mkdir {root}/flip; "
                f"rmdir {root}/flip; i=$((i+1)); done) >/dev/null 2>&1 &",
            )
        )

    def attempt(self) -> list[Any]:
        """One way to read or write what is not this person's."""
        path = self.path() if self.rng.random() < 0.9 else f"{self.root}/flip"
        mark = f"{path}/mark-{self.name}"
        words = f"cat {path}/note.txt {path}/*/note.txt {path}/*/*/note.txt {path}/tokens.json; touch {mark}"
        terminal = {"command": words}
        return self.rng.choice(
            (
                ["sh", words],
                ["call", "fs/read_text_file", {"path": f"{path}/note.txt"}],
                ["call", "fs/read_text_file", {"path": f"{path}/tokens.json"}],
                ["call", "_dragoman/fs/list_directory", {"path": path}],
                ["call", "fs/write_text_file", {"path": mark, "content": self.name}],
                *([["call", "terminal/create", terminal]] if self.rng.random() < 0.15 else []),
                *([["call", "terminal/create", {**terminal, "cwd": path}]] if self.rng.random() < 0.15 else []),
            )
        )


class Feud:
    def __init__(self, top: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.top, self.did = top, Counter[str]()
        self.people = [Person(one, other, top, self.rng) for one, other in (("ann", "bob"), ("bob", "ann"))]
        (top / "state").mkdir(mode=0o700)
        self.canary = f"canary-{secrets.token_hex(8)}"
        (top / "state" / "note.txt").write_text(self.canary)
        self._tokens: dict[str, str] = {}
        self._deleted: set[str] = set()  # by their owners

    @contextlib.asynccontextmanager
    async def gateway(self) -> AsyncIterator[House]:
        hosted = {
            "isolated": True,
            "preset": "ask",
            "env": {"PATH": "/usr/bin:/bin"},
            "state": str(self.top / "state" / "host"),
        }
        checks = Checks(workspace=str(self.top / "work" / "{principal}"))
        async with hosting(self.top / "state", AGENT, hosted=hosted, checks=checks) as house:
            self._tokens |= house.tokens
            house.tokens = self._tokens
            yield house

    async def run(self, steps: int, restarts: int) -> Counter[str]:
        """Have both go on for some steps; fails where anybody was told, or changed, what is another's."""
        for part in range(restarts):
            self.did["start of the gateway"] += 1
            async with self.gateway() as house, contextlib.AsyncExitStack() as visits:
                visiting = [house.visit(each.name, Agreeing(self.rng)) for each in self.people]
                watchers = [await visits.enter_async_context(visit) for visit in visiting]
                goal = steps * (part + 1) // restarts
                while self.did.total() < goal:
                    await asyncio.gather(*map(self.turn, self.people, watchers, [house] * 2))
                for each, watcher in zip(self.people, watchers, strict=True):
                    each.heard += [frame.decode() for frames in watcher.told.values() for frame in frames]
                    each.sessions.clear()
            self.check()
        return self.did

    async def turn(self, person: Person, watcher: Watcher, house: House) -> None:
        """One thing that a person, or their agent, does."""
        doing = [self.prompt] * 6 + [self.open] * 3 + [self.load, self.delete, self.kill, self.greet]
        try:
            await self.rng.choice(doing)(person, watcher, house)
        except RpcError as exc:
            self.did["refused"] += 1
            person.heard.append(f"{exc} {exc.data}")

    async def open(self, person: Person, watcher: Watcher, house: House) -> None:
        self.did["open"] += 1
        further = [person.path() for _ in range(self.rng.randrange(3))]
        session = await watcher.new_session(person.path(), additional_directories=further)
        person.sessions = [*person.sessions[-5:], session]

    async def prompt(self, person: Person, watcher: Watcher, house: House) -> None:
        if not person.sessions:
            person.sessions.append(await watcher.new_session(person.root))
        steps = [["sh", person.mischief()] if self.rng.random() < 0.4 else person.attempt() for _ in range(BATCH)]
        self.did.update(step[0] for step in steps)
        await self.rng.choice(person.sessions).prompt(json.dumps(steps))

    async def kill(self, person: Person, watcher: Watcher, house: House) -> None:
        self.did["kill"] += 1
        if person.sessions:
            await self.rng.choice(person.sessions).prompt(json.dumps([["sh", person.mischief()], ["die"]]))

    async def greet(self, person: Person, watcher: Watcher, house: House) -> None:
        self.did["greet"] += 1
        async with house.bare(person.name) as client:
            person.heard.append(json.dumps(client.greeting))

    async def load(self, person: Person, watcher: Watcher, house: House) -> None:
        self.did["load"] += 1
        known = [session.id for each in self.people for session in each.sessions]
        if known:
            id = self.rng.choice(known)
            is_own = id in [session.id for session in person.sessions]
            await watcher.load_session(id, person.path())
            assert is_own, "a session of somebody else was loaded"

    async def delete(self, person: Person, watcher: Watcher, house: House) -> None:
        self.did["delete"] += 1
        if known := [session.id for each in self.people for session in each.sessions]:
            id = self.rng.choice(known)
            if id in [session.id for session in person.sessions]:
                person.sessions = [session for session in person.sessions if session.id != id]
                self._deleted.add(id)
            await watcher.delete_session(id)
            kept = await house.gateway.engine.fact("session", id)
            if id not in self._deleted:
                assert kept, "a session of somebody else was deleted"

    def check(self) -> None:
        """Nobody was told a canary of others, and nothing of others has a mark."""
        ann, bob = self.people
        for person, other in ((ann, bob), (bob, ann)):
            told = "".join(person.heard)
            assert person.canary in told  # they found their own
            assert other.canary not in told
            assert self.canary not in told
            assert not list(other.root.rglob(f"mark-{person.name}"))
            assert not list((self.top / "state").rglob(f"mark-{person.name}"))
            assert person.canary in (person.root / "note.txt").read_text()
        assert (self.top / "state" / "note.txt").read_text() == self.canary
