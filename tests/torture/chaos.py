"""Everything goes wrong at once around a gateway, while people go on working with it.

Some misbehave all the time: agents that hang, die or write noise, clients that never read, strangers with wrong
tokens and sockets without any.  Now and then the machine does: the disk is full or slow, the clock jumps, the
gateway is killed or replaced.  The people have to notice nothing of the former beyond `latency`, and of the latter
no more than it lasts; each of their prompts has one outcome, and no word of an answer is lost, doubled or out of
order.
"""

import asyncio
import contextlib
import functools
import itertools
import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from gateway.handing_over import said
from gateway.house import Watcher
from gateway.killing import check_outcomes
from patience import PATIENCE

from dragoman import connect
from dragoman.errors import Error
from dragoman.gateway.access.tokens import add_token
from dragoman.gateway.attachment import attached

HERE = Path(__file__).parent
PEOPLE = 6
WORDS = 10  # of a prompt, each an update
PROMPTS = 15  # of a session, which is then deleted
THINKING = 0.5  # seconds between two prompts of one person
SETTLE = 15.0  # seconds behind a trouble of the machine in which its traces are its own: clients come back
VOLUME = 192  # MiB of the disk
DESCRIPTORS = 600  # of the gateway
JUMP = 3600.0  # seconds
MISBEHAVING = ("wedge", "die", "noise", "flood")  # who have agents that do so, each a process of their own


class Trouble(NamedTuple):
    """A trouble of the machine, which everybody may notice while it lasts."""

    name: str
    began: float
    ended: float


class Worked(NamedTuple):
    """A prompt of one of the people."""

    who: str
    began: float
    ended: float
    outcome: str

    def meets(self, trouble: Trouble) -> bool:
        return self.began <= trouble.ended + SETTLE and trouble.began <= self.ended


class Chaos:
    """A gateway in a directory of its own, those who work with it, and those who do it harm."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.state, self.work = directory / "disk" / "state", directory / "work"
        self.disk, self.log, self._clock = directory / "disk", directory / "log", directory / "clock"
        self.is_over = False
        self.url = ""
        self.worked: list[Worked] = []
        self.troubles: list[Trouble] = []
        self.done: Counter[str] = Counter()
        self.most_kilobytes = self.most_descriptors = 0
        self.wrong: list[str] = []
        self._dice = random.Random(seed)
        self._process: asyncio.subprocess.Process | None = None
        self._tokens: dict[str, str] = {}
        self._keys = itertools.count()

    # The gateway

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self.disk.mkdir()
        await run("mount", "-t", "tmpfs", "-o", f"size={VOLUME}m", "tmpfs", str(self.disk))
        try:
            self.state.mkdir()
            self._clock.write_bytes(struct.pack("d", 0.0))
            for who in (*(f"ann{number}" for number in range(PEOPLE)), *MISBEHAVING):
                (self.work / who).mkdir(parents=True)
                self._tokens[who] = add_token(self.state / "tokens.json", who, who)
            self._process = await self._start()
            try:
                yield
            finally:
                with contextlib.suppress(ProcessLookupError):
                    self._process.terminate()
                async with asyncio.timeout(PATIENCE):
                    await self._process.wait()
            self.done["prompts in the log"] = await check_outcomes(self.state)
        finally:
            await run("umount", "-l", str(self.disk))

    async def _start(self, *options: str) -> asyncio.subprocess.Process:
        listen = urlsplit(self.url).netloc if self.url else "127.0.0.1:0"
        limits = {"turn_seconds": 8, "cancel_seconds": 3, "stuck_seconds": 4, "queued_bytes": 64 * 1024**2}
        with self.log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *("sh", "-c", f'ulimit -n {DESCRIPTORS}; exec "$@"', "sh"),
                *(sys.executable, str(HERE / "chaos_gateway.py"), str(self._clock), "serve"),
                *("--agent", f"chaotic={sys.executable} {HERE / 'chaos_agent.py'}", "--state", str(self.state)),
                *("--listen", listen, "--workspace", f"{self.work}/{{principal}}"),
                *(word for name, most in limits.items() for word in ("--limit", f"{name}={most}")),
                *options,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert process.stdout
        async with asyncio.timeout(PATIENCE):
            url = (await process.stdout.readline()).decode().strip()
        if not url:
            await process.wait()
            raise RuntimeError(f"the gateway does not start: {self.log.read_text()[-2000:]}")
        self.url = url
        return process

    async def watch(self) -> None:
        """See how much the gateway takes, until it is over."""
        while not self.is_over:
            with contextlib.suppress(OSError, IndexError, ValueError):
                pid = self._process.pid if self._process else 0
                status = Path(f"/proc/{pid}/status").read_text()
                self.most_kilobytes = max(self.most_kilobytes, int(status.partition("VmRSS:")[2].split()[0]))
                self.most_descriptors = max(self.most_descriptors, len(os.listdir(f"/proc/{pid}/fd")))
            await asyncio.sleep(0.5)

    # The people

    def _headers(self, who: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._tokens[who]}"}

    async def live(self, who: str) -> None:
        """Work with sessions, one after the other, and check all that is heard of each."""
        client = Watcher()
        async with connect(attached(self.url, headers=self._headers(who), patience=PATIENCE), client):
            while not self.is_over:
                session = await self._at_last(lambda: client.new_session(self.work / who))
                outcomes = []
                while len(outcomes) < PROMPTS and not self.is_over:
                    outcomes.append(await self._prompt(who, session, len(outcomes)))
                    await asyncio.sleep(THINKING)
                heard = said(client.told.pop(session.id, []))
                if wrong := misheard(heard, outcomes):
                    self.wrong.append(f"{who} in {session.id}: {wrong}")
                await self._at_last(functools.partial(client.delete_session, session.id))
                self.done["sessions"] += 1

    async def _at_last(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        """What is given in the end; a machine in trouble refuses until it is well again."""
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    return await ask()
                except Error as exc:
                    self.done[f"asked again: {type(exc).__name__}"] += 1
                    await asyncio.sleep(0.5)

    async def _prompt(self, who: str, session: Any, number: int) -> str:
        began = time.monotonic()
        try:
            async with asyncio.timeout(PATIENCE):
                outcome = str((await session.prompt(" ".join(words_of(number)))).stop_reason)
        except TimeoutError:
            outcome = "none"
        except Error as exc:
            data = getattr(exc, "data", None)
            kind = data.get("kind", "") if isinstance(data, dict) else ""
            outcome = f"{type(exc).__name__} {kind}".strip()
        self.worked.append(Worked(who, began, time.monotonic(), outcome))
        return outcome

    # Those who misbehave all the time

    async def misbehave(self, way: Callable[[], Awaitable[None]]) -> None:
        while not self.is_over:
            with contextlib.suppress(Error, OSError, TimeoutError, EOFError):
                async with asyncio.timeout(30):
                    await way()
                    self.done[way.__name__] += 1
            await asyncio.sleep(0.5)

    @asynccontextmanager
    async def _session_of(self, who: str) -> AsyncIterator[tuple[Watcher, Any]]:
        client = Watcher()
        async with connect(self.url, client, headers=self._headers(who)):
            session = await client.new_session(self.work / who)
            yield client, session
            await client.delete_session(session.id)

    async def wedge(self) -> None:
        async with self._session_of("wedge") as (_, session):
            with contextlib.suppress(Error):
                await session.prompt("wedge")

    async def die(self) -> None:
        async with self._session_of("die") as (_, session):
            with contextlib.suppress(Error):
                await session.prompt("die")

    async def make_noise(self) -> None:
        async with self._session_of("noise") as (_, session):
            await session.prompt("noise")

    async def never_read(self) -> None:
        async with self._session_of("flood") as (client, session):
            running = asyncio.ensure_future(session.prompt("flood"))
            client.connection.hold()
            await asyncio.sleep(3)
            client.connection.resume()
            await running

    async def guess(self) -> None:
        """Twenty wrong tokens, which the address of everybody else here sends, too."""
        for _ in range(20):
            await self._get("/metrics", f"dgm_{next(self._keys):032}")

    async def _get(self, path: str, token: str) -> bytes:
        address = urlsplit(self.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        try:
            head = f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {token}"
            writer.write(f"{head}\r\nConnection: close\r\n\r\n".encode())
            return await reader.read()
        finally:
            writer.transport.abort()

    async def take_descriptors(self) -> None:
        """More sockets than the gateway has descriptors, which say nothing, for a while."""
        address = urlsplit(self.url)
        held = []
        try:
            for _ in range(DESCRIPTORS):
                _, writer = await asyncio.open_connection(address.hostname, address.port)
                held.append(writer)
            await asyncio.sleep(2)
        finally:
            for writer in held:
                writer.transport.abort()
        await asyncio.sleep(2)

    # The machine

    async def disturb(self) -> None:
        """One trouble of the machine after the other, in any order, each as often as the others."""
        ways = [self.fill_disk, self.slow_disk, self.jump, self.kill, self.replace, self.kill_while_replacing]
        while len({prompt.who for prompt in self.worked}) < PEOPLE:  # noqa: ASYNC110 - once they are all at work
            await asyncio.sleep(0.1)
        while not self.is_over:
            self._dice.shuffle(ways)
            for way in ways:
                began = time.monotonic()
                await way()
                self.troubles.append(Trouble(way.__name__, began, time.monotonic()))
                self.done[way.__name__] += 1
                await self.pause(SETTLE + self._dice.uniform(5, 10))  # in which only others are a trouble
                if self.is_over:
                    break

    async def pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self.is_over and time.monotonic() < end:  # noqa: ASYNC110 - it is over at some moment or other
            await asyncio.sleep(0.2)

    async def fill_disk(self) -> None:
        filler = self.disk / "filler"
        try:
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                while True:
                    file.write(b"x" * 65536)
            await asyncio.sleep(4)
        finally:
            filler.unlink(missing_ok=True)

    async def slow_disk(self) -> None:
        """Every sync takes a quarter of a second more."""
        assert self._process
        slowing = await asyncio.create_subprocess_exec(
            *("strace", "-f", "-qq", "-o", "/dev/null", "-p", str(self._process.pid)),
            *("-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:delay_exit=250000"),
            stderr=subprocess.DEVNULL,
        )
        await asyncio.sleep(5)
        slowing.send_signal(signal.SIGINT)
        await slowing.wait()

    async def jump(self) -> None:
        """The clock goes forward or back by an hour."""
        (before,) = struct.unpack("d", self._clock.read_bytes())
        with self._clock.open("r+b") as clock:
            clock.write(struct.pack("d", before + self._dice.choice((JUMP, -JUMP))))
        await asyncio.sleep(1)

    async def kill(self) -> None:
        assert self._process
        self._process.kill()
        await self._process.wait()
        self._process = await self._start_at_last()

    async def replace(self) -> None:
        before, self._process = self._process, await self._start_at_last("--take-over")
        assert before
        async with asyncio.timeout(PATIENCE):
            await before.wait()

    async def kill_while_replacing(self) -> None:
        before, self._process = self._process, await self._start_at_last("--take-over")
        assert before
        with contextlib.suppress(ProcessLookupError):
            before.kill()
        await before.wait()

    async def _start_at_last(self, *options: str) -> asyncio.subprocess.Process:
        """Start a gateway, again if its address or its state is not yet free."""
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    return await self._start(*options)
                except RuntimeError:
                    self.done["started again"] += 1
                    await asyncio.sleep(0.5)

    # What came of it

    def noticed(self, latency: float) -> list[str]:
        """What people noticed of others' troubles, or longer than a trouble of the machine lasted."""
        found = []
        for prompt in self.worked:
            met = [trouble for trouble in self.troubles if prompt.meets(trouble)]
            allowed = latency + sum(trouble.ended - trouble.began for trouble in met) + (SETTLE if met else 0)
            took = prompt.ended - prompt.began
            is_well = prompt.outcome == "end_turn" or (met and prompt.outcome != "none")
            if took > allowed or not is_well:
                names = ", ".join(trouble.name for trouble in met) or "no trouble of the machine"
                found.append(f"{prompt.who}: {prompt.outcome} after {took:.1f} s, {names}")
        return found

    def slowest(self, *, in_trouble: bool) -> str:
        """The median, the 99th percentile and the slowest prompt, in troubles of the machine or beside them."""
        took = sorted(
            prompt.ended - prompt.began
            for prompt in self.worked
            if any(map(prompt.meets, self.troubles)) == in_trouble
        )
        if not took:
            return "none"
        shown = (took[len(took) // 2], took[int(len(took) * 0.99)], took[-1])
        return f"{len(took)} prompts, " + ", ".join(f"{seconds:.2f} s" for seconds in shown)


async def run(*argv: str) -> None:
    process = await asyncio.create_subprocess_exec(*argv)
    assert await process.wait() == 0, argv


def words_of(prompt: int) -> list[str]:
    return [f"{prompt}.{number}" for number in range(WORDS)]


def misheard(heard: list[str], outcomes: list[str]) -> str:
    """What is wrong with the words heard of a session: answers are in order, and whole where they ended well."""
    at = 0
    for number, outcome in enumerate(outcomes):
        for word in words_of(number):
            if at < len(heard) and heard[at] == word:
                at += 1
            elif outcome == "end_turn":
                return f"{word} is missing, there is {heard[at : at + 3]}"
            else:
                break
    return f"there is {heard[at : at + 3]} besides" if at < len(heard) else ""


async def live_through_chaos(directory: Path, minutes: float, seed: int) -> Chaos:
    """Let people work for so many minutes while everything goes wrong; raises for what they cannot go on after."""
    chaos = Chaos(directory, seed)
    async with chaos.running(), asyncio.TaskGroup() as group:
        people = [group.create_task(chaos.live(f"ann{number}")) for number in range(PEOPLE)]
        bad = (chaos.wedge, chaos.die, chaos.make_noise, chaos.never_read, chaos.guess, chaos.take_descriptors)
        others = [group.create_task(chaos.misbehave(way)) for way in bad]
        others += [group.create_task(chaos.disturb()), group.create_task(chaos.watch())]
        await asyncio.sleep(minutes * 60)
        chaos.is_over = True
        await asyncio.wait([*people, *others], timeout=2 * PATIENCE)
    return chaos
