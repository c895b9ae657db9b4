"""A gateway session in a world of its own, where everything that can happen happens on command.

Clients and agent are on memory wires and the log is in memory, so that a history goes the same way each time.
`World.check` holds what was told against what was kept.
"""

import asyncio
import contextlib
import functools
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec
from patience import PATIENCE

from dragoman import Agent
from dragoman import schema as s
from dragoman.agent.serving import serve_on
from dragoman.gateway.access.limits import Limits
from dragoman.gateway.agents.upstream import Hosted
from dragoman.gateway.clients.client_connection import serve_client
from dragoman.gateway.gateway import Gateway
from dragoman.gateway.log.records import Answered, PromptAccepted, PromptEnded, QuestionAsked, is_update, read_own
from dragoman.transports.memory import pipe

from .memory import MemoryEngine, Storage

LIMITS = Limits(cancel_seconds=0.05, queue=8, owner_seconds=0.05, agent_failures=1_000_000)
REFUSALS = ("storage", "draining", "quota", "role")  # kinds of errors that are no outcome of a turn
OPENING = ("session/load", "session/resume", "session/attach")
DETACHED = "_dragoman/session/detached"


class Puppet(Agent):
    """Does what a prompt's last word says; what waits goes on when the world says so."""

    world: "World"

    async def __aenter__(self) -> "Puppet":
        self.world.agents.add(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.world.agents.discard(self)

    async def answer(self, turn: Any) -> Any:
        running = self.world.running
        running.append(turn)  # one whose connection is gone does nothing any more
        alive = [one for one in running if one.session.id == turn.session.id and not one.client.wire.closed]
        self.world.most = max(self.world.most, len(alive))
        try:
            return await getattr(self, turn.text.split()[-1])(turn)
        finally:
            running.remove(turn)

    async def say(self, turn: Any) -> None:
        for word in ("one", "two", "three"):
            await turn.say(word)
            await asyncio.sleep(0)

    async def work(self, turn: Any) -> None:
        async with turn.tool("work") as call:
            await call.start()
            await self.world.go_on.wait()

    async def ask(self, turn: Any) -> None:
        async with turn.tool("ask") as call:
            await turn.say(str(bool(await turn.ask(call))))

    async def deaf(self, turn: Any) -> None:
        await turn.say("I hear nothing")
        while not self.world.go_on.is_set() and not self.client.wire.closed:
            with contextlib.suppress(asyncio.CancelledError):
                await self.world.go_on.wait()

    async def fail(self, turn: Any) -> None:
        raise RuntimeError("as it was told to")


class Resuming(Puppet):
    """Can go on with any session, and remembers none."""

    async def resume_session(self, params: s.ResumeSessionRequest) -> s.ResumeSessionResponse:
        await self.open_session(params.session_id, params)
        return s.ResumeSessionResponse()


class Unclosing(Puppet):
    """Cannot close a session."""

    def capabilities(self) -> s.AgentCapabilities:
        found = super().capabilities()
        sessions = msgspec.structs.replace(found.session_capabilities, close=None)
        return msgspec.structs.replace(found, session_capabilities=sessions)


AGENTS = {"forgetful": Puppet, "resuming": Resuming, "unclosing": Unclosing}


class Person:
    """A client on a wire of its own, which keeps every frame it is sent in order."""

    def __init__(self, world: "World", principal: str, client: str) -> None:
        self.principal, self.client, self.world = principal, client, world
        self.frames: list[dict[str, Any]] = []
        self.heard = asyncio.Event()
        self.sent: dict[int, tuple[str, dict[str, Any]]] = {}
        self.openings: list[int] = []  # requests that open the session
        self.told: list[tuple[int, dict[str, Any]]] = []  # every frame, and how many openings there were before it
        self.is_over = False
        self.wire, theirs = pipe()
        app = functools.partial(serve_client, world.gateway, "puppet", principal, lambda: None)
        self.serving = asyncio.create_task(serve_on(app, theirs))
        self.wire.listen(self._hear, self._end)

    def _hear(self, frames: Any) -> None:
        heard = [msgspec.json.decode(frame) for frame in frames]
        self.frames += heard
        self.told += [(len(self.openings), frame) for frame in heard]
        self.heard.set()

    def _end(self) -> None:
        self.is_over = True
        self.heard.set()

    def send(self, **message: Any) -> None:
        self.world.note(self, message)
        self.wire.send([msgspec.json.encode({"jsonrpc": "2.0", **message})])

    def ask(self, method: str, **params: Any) -> int:
        id = len(self.sent)
        self.sent[id] = method, params
        if method in OPENING:
            self.openings.append(id)
        self.send(id=id, method=method, params=params)
        return id

    async def asked(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask, and wait for the answer."""
        id = self.ask(method, **params)
        async with asyncio.timeout(PATIENCE):
            while not self.answers(id) and not self.is_over:
                self.heard.clear()
                await self.heard.wait()
        return (self.answers(id) or [{}])[0]

    def answers(self, id: int) -> list[dict[str, Any]]:
        return [frame for frame in self.frames if frame.get("id") == id and "method" not in frame]

    @property
    def pending(self) -> list[int]:
        return [id for id in self.sent if not self.answers(id)]

    @property
    def questions(self) -> list[dict[str, Any]]:
        """Permission requests it has not answered yet."""
        return [frame for frame in self.frames if frame.get("method") == "session/request_permission"]

    @property
    def is_attached(self) -> bool:
        """Whether it has opened the session, or is about to, and was not sent away since."""
        attached = False
        for frame in self.frames:
            if frame.get("method") == DETACHED:
                attached = False
            elif "method" not in frame and "result" in frame:
                method = self.sent[frame["id"]][0]
                attached = method in (*OPENING, "session/new") or (attached and method != "session/close")
        return attached or any(self.sent[id][0] in OPENING for id in self.pending)


class World:
    """One session, its gateway, its agent and its people."""

    def __init__(self, directory: Path, kind: str) -> None:
        self.directory, self.kind = directory, kind
        self.runner = asyncio.Runner()
        self.people: list[Person] = []
        self.gone: list[Person] = []  # whose connection has ended
        self.agents: set[Puppet] = set()
        self.running: list[Any] = []  # turns, of all agents
        self.most = 0  # turns of one session at once
        self.messages = 0  # that people have sent
        self.cancelled = 0  # which of them was the last to end turns
        self.prompted: dict[str, int] = {}  # which of them was a prompt for the first time
        self.gateway: Gateway
        self.session = ""
        self.run(self._begin())

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    async def _begin(self) -> None:
        asyncio.get_running_loop().set_exception_handler(self._unseen)
        self.storage, self.go_on = Storage(), asyncio.Event()
        await self.start()
        first = await self.arrive("ann", "ann-0")
        opened = await first.asked("session/new", cwd=str(self.directory), mcpServers=[])
        self.session = opened["result"]["sessionId"]

    def _unseen(self, loop: Any, context: dict[str, Any]) -> None:
        raise AssertionError(f"an exception nobody saw: {context}")

    async def start(self) -> None:
        self.engine = MemoryEngine(self.storage)
        agent = type("Agent", (AGENTS[self.kind],), {"world": self})
        hosted = Hosted(target=agent, preset="allow-all", workspace="client")
        self.gateway = Gateway(self.engine, {"puppet": hosted}, limits=LIMITS)
        await self.gateway.__aenter__()

    async def stop(self, *, kill: bool = False) -> None:
        """End the gateway: in good order, or as if its process were killed."""
        if kill:
            self.engine.kill()
        self.storage.is_open.set()
        for person in list(self.people):
            await self.depart(person)
        async with asyncio.timeout(PATIENCE):
            await self.gateway.__aexit__()

    def note(self, person: Person, message: dict[str, Any]) -> None:
        """Somebody sends something: remember what may explain how turns end."""
        self.messages += 1
        if message.get("method") in ("session/cancel", "session/close", "$/cancel_request"):
            self.cancelled = self.messages
        elif message.get("method") == "session/prompt":
            self.prompted.setdefault(_key(person, message["params"]), self.messages)

    async def restart(self, *, kill: bool) -> None:
        await self.stop(kill=kill)
        self.storage.is_full = self.storage.is_losing = False
        await self.start()

    async def kill_agents(self) -> None:
        for agent in list(self.agents):
            agent.client.wire.hang_up()

    async def arrive(self, principal: str, client: str) -> Person:
        person = Person(self, principal, client)
        self.people.append(person)
        meta = {"_meta": {"dragoman": {"client": client}}}
        await person.asked("initialize", protocolVersion=1, clientCapabilities=meta)
        return person

    async def depart(self, person: Person) -> None:
        self.people.remove(person)
        self.gone.append(person)
        await person.wire.close()
        async with asyncio.timeout(PATIENCE):
            await person.serving

    async def pass_by(self, steps: int) -> None:
        for _ in range(steps):
            await asyncio.sleep(0)
        for person in [person for person in self.people if person.is_over]:
            await self.depart(person)

    # The end

    async def finish(self) -> None:
        """Let everything come to its end, and look whether the session still does its work."""
        self.storage.is_full = self.storage.is_losing = False
        self.storage.is_open.set()
        self.go_on.set()
        await self._all_answered()
        last = await self.arrive("ann", "last")
        loaded = await last.asked("session/load", sessionId=self.session, cwd=str(self.directory), mcpServers=[])
        assert "result" in loaded, loaded
        await self._all_answered(until_idle=True)  # prompts of those who left may still fill the queue
        said = last.ask("session/prompt", **prompt(self.session, "say", "the last one"))
        await self._all_answered()
        assert last.answers(said)[0].get("result") == {"stopReason": "end_turn"}, last.answers(said)
        session = self.gateway.live[self.session]
        assert not session.questions and not session.turns.is_busy
        await self.stop()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left

    async def _all_answered(self, *, until_idle: bool = False) -> None:
        """Allow whatever is asked until every request is answered, or until the session is idle."""
        async with asyncio.timeout(PATIENCE):
            while any(person.pending for person in self.people) or (
                until_idle and self.gateway.live[self.session].turns.is_busy
            ):
                for person in self.people:
                    answer_all(person)
                await asyncio.sleep(0.001)
                await self.pass_by(1)

    def check(self) -> None:
        """What was told is what was kept, once and in order."""
        log = self.storage.logs[self.session]
        own = [(record.number, read_own(record.entry.frame)) for record in log if not is_update(record.entry.frame)]
        prompted = Counter(record.prompt for _, record in own if isinstance(record, PromptAccepted))
        ended = {record.prompt: (number, record) for number, record in own if isinstance(record, PromptEnded)}
        assert prompted == Counter(record.prompt for _, record in own if isinstance(record, PromptEnded))
        assert set(prompted.values()) <= {1}, prompted
        asked = Counter(record.question for _, record in own if isinstance(record, QuestionAsked))
        assert asked == Counter(record.question for _, record in own if isinstance(record, Answered))
        assert self.most <= 1, "two turns ran at once"
        for key, (_, outcome) in ended.items():
            if b'"cancelled"' in bytes(outcome.result):
                assert self.prompted[key] < self.cancelled, f"nobody has cancelled {key}"
        everything = [(person, *request) for person in self.gone for request in person.sent.values()]
        sent = Counter(_key(person, params) for person, method, params in everything if method == "session/prompt")
        for person in self.gone:
            for id in person.sent:
                answers = person.answers(id)
                assert len(answers) <= 1, (person.sent[id], answers)
                if person.sent[id][0] != "session/prompt":
                    assert "errorId" not in str(answers), answers
            _check_outcomes(person, ended, sent)
            for told in _stretches(person):
                _check_order(person, told, log, ended)


def prompt(session: str, word: str, key: str) -> dict[str, Any]:
    blocks = [{"type": "text", "text": word}]
    return {"sessionId": session, "prompt": blocks, "_meta": {"dragoman.prompt": key}}


def answer_all(person: Person, option: str = "allow") -> None:
    """Answer every question it was asked."""
    for question in person.questions:
        person.frames.remove(question)
        outcome = {"outcome": "selected", "optionId": option}
        person.send(id=question["id"], result={"outcome": outcome})


def _key(person: Person, params: dict[str, Any]) -> str:
    return f"{person.principal}/{params['_meta']['dragoman.prompt']}"


def _check_outcomes(person: Person, ended: dict[str, tuple[int, PromptEnded]], sent: Counter[str]) -> None:
    """Whoever was told how a turn ended was told what the log says; `sent` is how often each prompt was."""
    for id, (method, params) in person.sent.items():
        for answer in person.answers(id) if method == "session/prompt" else ():
            error, key = answer.get("error"), _key(person, params)
            if error and (error["code"] == -32002 or (error.get("data") or {}).get("kind") in REFUSALS):
                continue
            if error and error["code"] == -32800:  # taken back before it was accepted
                if sent[key] == 1:
                    assert key not in ended, answer
                continue
            kept = ended[key][1]
            if kept.error:
                assert answer["error"] == msgspec.to_builtins(kept.error), (answer, kept)
            else:
                assert answer["result"] == msgspec.json.decode(kept.result), (answer, kept)


def _stretches(person: Person) -> list[list[tuple[int, dict[str, Any]]]]:
    """What a person was told, cut where it left the session or was sent away."""
    told: list[list[tuple[int, dict[str, Any]]]] = [[]]
    for opening, frame in person.told:
        told[-1].append((opening, frame))
        is_answer = "method" not in frame
        if frame.get("method") == DETACHED or (is_answer and person.sent[frame["id"]][0] == "session/close"):
            told.append([])
    return told


def _check_order(
    person: Person, told: list[tuple[int, dict[str, Any]]], log: Any, ended: dict[str, tuple[int, PromptEnded]]
) -> None:
    """The updates are a stretch of the log without a gap, but for own words; each answer follows its updates."""
    numbers: list[int] = []
    for _, frame in told:
        if frame.get("method") == "session/update":
            assert frame == msgspec.json.decode(log[_number(frame) - 1].entry.frame)
            if numbers:
                assert _number(frame) > numbers[-1], numbers
            numbers.append(_number(frame))
    if not numbers:
        return
    between = [record for record in log[numbers[0] - 1 : numbers[-1]] if is_update(record.entry.frame)]
    missing = [record.entry for record in between if record.number not in numbers]
    assert all((entry.principal, entry.client) == (person.principal, person.client) for entry in missing), missing
    for at, (opening, frame) in enumerate(told):
        if "method" in frame or "result" not in frame or person.sent[frame["id"]][0] != "session/prompt":
            continue
        number = ended[_key(person, person.sent[frame["id"]][1])][0]
        later = [
            one for openings, one in told[at:] if openings == opening and one.get("method") == "session/update"
        ]
        if not [one for one in person.openings[:opening] if one > frame["id"]]:  # else it is told everything again
            assert all(_number(one) > number for one in later), "an update after its answer"


def _number(update: dict[str, Any]) -> int:
    number: int = update["params"]["_meta"]["dragoman.seq"]
    return number
