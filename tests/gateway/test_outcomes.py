"""Every request has exactly one outcome, whatever happens to the agent, the log or the people at the session."""

import ast
import asyncio
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from leftovers import descriptors
from patience import PATIENCE

import dragoman.gateway
from dragoman import Agent
from dragoman import schema as s
from dragoman.errors import InternalError, InvalidRequest, Overloaded, ResourceNotFound
from dragoman.gateway.access.limits import Limits
from dragoman.gateway.agents.processes import IDLE
from dragoman.gateway.log.engine import EngineFailure
from dragoman.gateway.log.logs import records
from dragoman.gateway.log.records import Answered, PromptAccepted, PromptEnded, QuestionAsked, is_update, read_own
from dragoman.gateway.sessions.agent_link import AgentLink
from dragoman.testing import Testy

from .ageing import Clock
from .house import House, hosting, stepping, until
from .test_admission import ask
from .test_company import share

pytestmark = pytest.mark.usefixtures("nothing_left")

FRAGILE = str(Path(__file__).with_name("fragile.py"))


async def outcome(session: Any, text: str, key: str = "") -> Any:
    return await session.prompt(text, meta={"dragoman.prompt": key} if key else None)


async def own_records(house: House, session: str) -> list[Any]:
    engine = house.gateway.engine
    return [read_own(r.entry.frame) async for r in records(engine, session) if not is_update(r.entry.frame)]


async def check_log(house: House, session: str) -> None:
    """Each prompt in the log has one outcome, and each question one answer."""
    found = await own_records(house, session)
    prompted = Counter(record.prompt for record in found if isinstance(record, PromptAccepted))
    ended = Counter(record.prompt for record in found if isinstance(record, PromptEnded))
    asked = Counter(record.question for record in found if isinstance(record, QuestionAsked))
    answered = Counter(record.question for record in found if isinstance(record, Answered))
    assert prompted == ended and set(ended.values()) <= {1}
    assert asked == answered


def hold_up_writing(house: House, word: bytes) -> tuple[asyncio.Event, asyncio.Event]:
    """Records with this word are being written, which the first event says, until the second one is set."""
    append, writing, go_on = house.gateway.engine.append, asyncio.Event(), asyncio.Event()

    async def slowly(lease: Any, entries: Any, after: int) -> None:
        if any(word in entry.frame for entry in entries):
            writing.set()
            await go_on.wait()
        await append(lease, entries, after)

    house.gateway.engine.append = slowly  # type: ignore[method-assign]
    return writing, go_on


# The agent


@pytest.mark.parametrize("manner", ["dying", "null"])
async def test_a_prompt_has_an_outcome_however_its_agent_starts_again(tmp_path: Path, manner: str) -> None:
    command = [sys.executable, "-S", FRAGILE, str(tmp_path / manner)]
    async with hosting(tmp_path, command) as house, house.visit() as ann, asyncio.timeout(PATIENCE):
        session = await ann.new_session(tmp_path)
        with pytest.raises(InternalError, match="interrupted"):
            await session.prompt("die")
        if manner == "dying":
            read_once_gone(house)
            with pytest.raises(InternalError, match="interrupted"):
                await session.prompt("hello")
        else:
            assert (await session.prompt("hello")).stop_reason == "end_turn"
        await check_log(house, session.id)


async def test_an_agent_that_never_opens_its_session_again_is_ended_and_the_prompt_has_an_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.gateway.agents.upstream.OPEN_TIMEOUT", 0.3)
    command = [sys.executable, "-S", FRAGILE, str(tmp_path / "mute")]
    async with hosting(tmp_path, command) as house, house.visit() as ann, asyncio.timeout(PATIENCE):
        session = await ann.new_session(tmp_path)
        with pytest.raises(InternalError, match="interrupted"):
            await session.prompt("die")
        for _ in range(2):
            with pytest.raises(InternalError, match="session/new"):
                await session.prompt("hello")
            assert not house.gateway.processes.running
        await check_log(house, session.id)


async def test_a_prompt_that_is_cancelled_while_its_agent_starts_is_answered_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-S", FRAGILE, str(tmp_path / "slow")]
    async with hosting(tmp_path, command) as house, house.visit() as ann, asyncio.timeout(PATIENCE):
        session = await ann.new_session(tmp_path)
        with pytest.raises(InternalError, match="interrupted"):
            await session.prompt("die")
        running = asyncio.ensure_future(outcome(session, "hello"))
        await ann.until(lambda: ann.notices("_dragoman/queue")[-1]["running"])
        session.cancel()
        assert (await running).stop_reason == "cancelled"
        after = asyncio.ensure_future(outcome(session, "after"))
        (tmp_path / "go").touch()
        assert (await after).stop_reason == "end_turn"
        assert b"hello" not in b"".join(ann.told[session.id])
        await check_log(house, session.id)


async def test_a_prompt_that_is_cancelled_while_its_words_are_written_down_is_unknown_to_the_agent(
    tmp_path: Path,
) -> None:
    asked = []

    class Noting(Agent):
        async def answer(self, turn: Any) -> None:
            asked.append(turn.text)

    async with hosting(tmp_path, Noting) as house, house.visit() as ann, asyncio.timeout(PATIENCE):
        session = await ann.new_session(tmp_path)
        writing, go_on = hold_up_writing(house, b"user_message_chunk")
        running = asyncio.ensure_future(outcome(session, "never"))
        await writing.wait()
        session.cancel()
        await ann.list_sessions()  # so the cancel was heard
        go_on.set()
        assert (await running).stop_reason == "cancelled"
        assert (await outcome(session, "and then")).stop_reason == "end_turn"
        assert asked == ["and then"]
        await check_log(house, session.id)


def read_once_gone(house: House) -> None:
    """Have the gateway read its log no sooner than it knows that its next agent has died."""
    gone, ended, read = asyncio.Event(), house.gateway.processes._ended, house.gateway.engine.read

    def noticed(upstream: Any) -> None:
        ended(upstream)
        gone.set()

    async def later(*arguments: Any) -> Any:
        await gone.wait()
        return await read(*arguments)

    house.gateway.processes._ended = noticed  # type: ignore[method-assign]
    house.gateway.engine.read = later  # type: ignore[method-assign]


@pytest.mark.parametrize("place", ["turn", "worker"])
async def test_a_failure_of_the_gateway_in_a_turn_is_that_turn_s_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    agent = stepping()
    async with hosting(tmp_path, agent) as house, house.visit() as ann, asyncio.timeout(PATIENCE):
        session = await ann.new_session(tmp_path)

        async def fails(link: AgentLink, **_: Any) -> None:
            fails_at_once()

        def fails_at_once(*_: Any) -> None:
            raise ZeroDivisionError("by nobody's design")

        with monkeypatch.context() as patch:
            if place == "turn":
                patch.setattr(AgentLink, "ready", fails)
            else:
                patch.setattr("dragoman.gateway.sessions.prompt_queue.span", fails_at_once)
            answers = await asyncio.gather(*(outcome(session, "one") for _ in range(3)), return_exceptions=True)
        assert [str(answer) for answer in answers] == [
            'the gateway failed: ZeroDivisionError (-32603) {"kind": "gateway_failure"}'
        ] * 3
        agent.allowed.release()
        assert (await session.prompt("one")).stop_reason == "end_turn"
        await check_log(house, session.id)


class Deaf(Agent):
    """Does not stop when it is told to, until it is cancelled with its connection."""

    running = 0
    most = 0

    async def answer(self, turn: Any) -> None:
        cls = type(self)
        cls.running += 1
        cls.most = max(cls.most, cls.running)
        try:
            await turn.say("Listening to nobody.")
            while turn.text == "deaf" and not self.client.wire.closed:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    continue
        finally:
            cls.running -= 1


async def test_an_agent_that_does_not_stop_is_ended_and_no_two_turns_run_at_once(tmp_path: Path) -> None:
    limits = Limits(cancel_seconds=0.2)
    async with hosting(tmp_path, Deaf, limits=limits) as house, house.visit() as ann, asyncio.timeout(PATIENCE):
        session = await ann.new_session(tmp_path)
        running = asyncio.ensure_future(outcome(session, "deaf"))
        await ann.until(lambda: ann.told.get(session.id))
        session.cancel()
        after = asyncio.ensure_future(outcome(session, "after"))
        assert (await running).stop_reason == "cancelled"
        assert (await after).stop_reason == "end_turn"
        assert Deaf.most == 1
        await check_log(house, session.id)


async def test_a_client_is_told_what_the_agent_is_now_and_not_what_it_was(tmp_path: Path) -> None:
    command = [sys.executable, "-S", FRAGILE, str(tmp_path / "newer")]
    async with hosting(tmp_path, command) as house, asyncio.timeout(PATIENCE):
        async with house.visit() as ann:
            assert ann.agent_info.version == "1"
            session = await ann.new_session(tmp_path)
            with pytest.raises(InternalError, match="interrupted"):
                await session.prompt("die")
        async with house.visit() as again:
            assert again.agent_info.version == "2"


async def test_a_session_of_an_agent_that_cannot_close_leaves_no_descriptor(tmp_path: Path) -> None:
    command = [sys.executable, "-S", FRAGILE, str(tmp_path / "plain")]
    async with hosting(tmp_path, command) as house, house.visit() as ann, asyncio.timeout(PATIENCE):
        before = None
        for _ in range(20):
            session = await ann.new_session(tmp_path)
            await ann.agent.request("session/close", {"sessionId": session.id})
            before = before or descriptors()
        assert descriptors() == before


# People


async def test_a_session_closed_and_loaded_at_once_answers_its_prompts(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.bare() as bare:
        opening = {"cwd": str(tmp_path), "mcpServers": []}
        id = (await bare.ask("session/new", opening))["result"]["sessionId"]

        def prompt(text: str, name: str) -> Any:
            blocks = [{"type": "text", "text": text}]
            return asyncio.ensure_future(bare.ask("session/prompt", {"sessionId": id, "prompt": blocks}, id=name))

        for round in range(10):
            running = prompt("wait", f"running {round}")
            await bare.hear("session/update")
            closed = asyncio.ensure_future(bare.ask("session/close", {"sessionId": id}, id=f"closed {round}"))
            await asyncio.sleep(0)  # it is sent before what follows
            loaded = await bare.ask("session/load", {"sessionId": id, **opening}, id=f"loaded {round}")
            assert "result" in loaded and "result" in await closed
            assert (await running)["result"]["stopReason"] == "cancelled"
            bare.frames.clear()
            assert (await prompt("echo after", f"after {round}"))["result"]["stopReason"] == "end_turn"
            assert "after" in str(bare.frames)
        await check_log(house, id)


async def test_a_session_somebody_else_closed_is_not_open_until_it_is_loaded_again(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit() as ann, house.visit() as other:
        session = await ann.new_session(tmp_path)
        theirs = await other.load_session(session.id, tmp_path)
        await ann.close_session(session.id)
        await other.until(lambda: other.notices("_dragoman/session/detached"))
        with pytest.raises(ResourceNotFound):
            await theirs.prompt("is anybody there?")
        loaded = await other.load_session(session.id, tmp_path)
        await loaded.prompt("echo here again")
        assert b"here again" in other.told[session.id][-1]


async def test_a_session_that_was_never_opened_here_takes_no_prompt(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit() as ann, house.bare() as other:
        session = await ann.new_session(tmp_path)
        for method, rest in (
            ("session/prompt", {"prompt": [{"type": "text", "text": "unseen"}]}),
            ("session/set_mode", {"modeId": "plan"}),
        ):
            assert (await other.ask(method, {"sessionId": session.id, **rest}))["error"]["code"] == -32002
        await session.prompt("seen")
        assert b"unseen" not in b"".join(ann.told[session.id])


async def test_an_observer_leaves_a_session_and_closes_it_for_nobody(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit() as ann, house.visit() as observer:
        session = await ann.new_session(tmp_path)
        await observer.agent.request("session/attach", {"sessionId": session.id, "role": "observer"})
        await observer.agent.request("session/close", {"sessionId": session.id})
        with pytest.raises(ResourceNotFound):
            await observer.agent.request("session/detach", {"sessionId": session.id})
        await session.prompt("echo still here")
        assert b"still here" in ann.told[session.id][-1]
        await observer.agent.request("session/attach", {"sessionId": session.id, "role": "observer"})
        with pytest.raises(InvalidRequest, match="admin"):
            await observer.agent.request("session/delete", {"sessionId": session.id})


async def test_a_viewer_that_becomes_an_editor_is_asked_what_is_open_until_it_is_none(
    tmp_path: Path,
) -> None:
    async with hosting(tmp_path) as house, house.visit("ann") as ann, house.visit("bob") as bob:
        session = await ann.new_session(tmp_path)
        await share(ann, session.id, "viewer")
        await bob.load_session(session.id, tmp_path)
        running = asyncio.ensure_future(outcome(session, "ask allow_once reject_once"))
        async with asyncio.timeout(PATIENCE):
            request, to_ann = await ann.asked.get()
            assert bob.asked.empty()
            await share(ann, session.id, "editor")
            same, to_bob = await bob.asked.get()
            assert same.tool_call == request.tool_call
            await share(ann, session.id, "viewer")
            await asyncio.wait([to_bob])
            assert to_bob.cancelled()
            to_ann.set_result(request.options[1].option_id)
            assert (await running).stop_reason == "end_turn"
        await check_log(house, session.id)


async def test_a_question_that_is_being_written_down_when_the_turn_is_cancelled_is_asked_of_nobody(
    tmp_path: Path,
) -> None:
    async with hosting(tmp_path) as house, house.visit() as ann, asyncio.timeout(PATIENCE):
        session = await ann.new_session(tmp_path)
        writing, go_on = hold_up_writing(house, b'"asked"')
        running = asyncio.ensure_future(outcome(session, "ask allow_once"))
        await writing.wait()
        session.cancel()
        session = house.gateway.live[session.id]
        await session.turns.running.cancelled.wait()
        go_on.set()
        assert (await running).stop_reason == "cancelled"
        assert ann.asked.empty() and not session.questions
        await check_log(house, session.id)


async def test_a_question_of_a_turn_that_is_being_cancelled_is_answered_and_asked_of_nobody(tmp_path: Path) -> None:
    answers = []

    class Inquisitive(Agent):
        async def answer(self, turn: Any) -> None:
            await turn.say("begun")
            try:
                await asyncio.Event().wait()
            finally:
                answers.append(await turn.ask(s.ToolCallUpdate(tool_call_id="late")))

    async with hosting(tmp_path, Inquisitive) as house, house.visit() as ann, house.visit() as other:
        async with asyncio.timeout(PATIENCE):
            session = await ann.new_session(tmp_path)
            await other.load_session(session.id, tmp_path)
            running = asyncio.ensure_future(outcome(session, "go"))
            await ann.until(lambda: ann.told.get(session.id))
            session.cancel()
            assert (await running).stop_reason == "cancelled"
        assert [answer.option for answer in answers] == [None]
        assert ann.asked.empty() and other.asked.empty()  # one of whom has cancelled nothing
        await check_log(house, session.id)


async def test_a_gateway_that_is_about_to_stop_takes_no_prompt_but_finishes_what_runs(tmp_path: Path) -> None:
    agent = stepping()
    async with hosting(tmp_path, agent) as house, house.visit() as ann, asyncio.timeout(PATIENCE):
        session = await ann.new_session(tmp_path)
        running = asyncio.ensure_future(outcome(session, "one", key="k"))
        await ann.until(lambda: ann.notices("_dragoman/queue")[-1]["running"])
        draining = asyncio.ensure_future(house.gateway.drain(PATIENCE))
        await asyncio.sleep(0)
        with pytest.raises(Overloaded) as caught:
            await session.prompt("two")
        assert caught.value.data["kind"] == "draining"
        again = asyncio.ensure_future(outcome(session, "one", key="k"))
        agent.allowed.release()
        assert (await running).stop_reason == (await again).stop_reason == "end_turn"
        await draining
        with pytest.raises(Overloaded) as caught:  # now its sessions are closed, too
            await session.prompt("three")
        assert caught.value.data["kind"] == "draining"


# The log


async def fill_disk(house: House, room: int = 0) -> None:
    """Let the database grow by this many pages and no more; a negative number is no bound."""

    def job(file: Any) -> None:
        (pages,) = file.db.execute("PRAGMA page_count").fetchone()
        file.db.execute(f"PRAGMA max_page_count = {pages + room if room >= 0 else 2**31 - 2}")

    await house.gateway.engine._writer.run(job, shares=False)  # type: ignore[attr-defined]


async def test_a_prompt_whose_outcome_meets_a_full_disk_is_told_the_one_that_is_kept(tmp_path: Path) -> None:
    agent = stepping()
    async with hosting(tmp_path, agent) as house, house.visit() as ann, house.visit() as other:
        session = await ann.new_session(tmp_path)
        await other.load_session(session.id, tmp_path)
        running = asyncio.ensure_future(outcome(session, "x" * 100_000, key="running"))
        waiting = asyncio.ensure_future(outcome(session, "two", key="waiting"))
        await other.until(lambda: other.told.get(session.id) and other.notices("_dragoman/queue")[-1]["waiting"])
        await fill_disk(house)
        agent.allowed.release()
        told = await asyncio.gather(running, waiting, return_exceptions=True)
        assert all(isinstance(error, InternalError) and "interrupted" in str(error) for error in told)
        await fill_disk(house, room=-1)
        again = await asyncio.gather(
            *(outcome(session, "again", key=key) for key in ("running", "waiting")), return_exceptions=True
        )
        assert [str(error) for error in again] == [str(error) for error in told]
        agent.allowed.release()
        assert (await outcome(session, "three")).stop_reason == "end_turn"
        assert ann.numbers(session.id) == sorted(set(ann.numbers(session.id)))
        await check_log(house, session.id)


async def test_what_a_turn_still_says_when_it_has_its_outcome_is_no_part_of_the_next_one(tmp_path: Path) -> None:
    command = [sys.executable, "-S", FRAGILE, str(tmp_path / "starts")]
    async with hosting(tmp_path, command) as house, house.visit() as ann, asyncio.timeout(PATIENCE):
        session = await ann.new_session(tmp_path)
        running = asyncio.ensure_future(outcome(session, "heedless"))
        await ann.until(lambda: ann.told.get(session.id))
        await fill_disk(house)
        (tmp_path / "more").touch()
        with pytest.raises(InternalError, match="interrupted"):
            await running
        await fill_disk(house, room=-1)
        after = asyncio.ensure_future(outcome(session, "and then"))
        await ann.until(lambda: ann.notices("_dragoman/queue")[-1]["waiting"])
        (tmp_path / "go").touch()
        assert (await after).stop_reason == "end_turn"
        said = [json.loads(frame)["params"]["update"]["content"]["text"] for frame in ann.told[session.id]]
        assert said == ["heedless", "and then"]
        await check_log(house, session.id)


async def test_a_prompt_that_is_cancelled_while_its_session_is_mended_never_runs(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.bare() as ann, asyncio.timeout(PATIENCE):
        opened = await ann.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        session = {"sessionId": opened["result"]["sessionId"]}

        def prompt(text: str) -> dict[str, Any]:
            return {**session, "prompt": [{"type": "text", "text": text}]}

        await fill_disk(house)
        assert "error" in await ann.ask("session/prompt", prompt("echo " + "x" * 100_000))
        await fill_disk(house, room=-1)
        last, mending, go_on = house.gateway.engine.last, asyncio.Event(), asyncio.Event()

        async def later(name: str) -> int:
            mending.set()
            await go_on.wait()
            return await last(name)

        house.gateway.engine.last = later  # type: ignore[method-assign]
        running = asyncio.ensure_future(ann.ask("session/prompt", prompt("echo too late")))
        await mending.wait()
        ann.send({"jsonrpc": "2.0", "method": "session/cancel", "params": session})
        await ann.ask("session/list", {})  # so the cancel was heard
        go_on.set()
        assert (await running)["result"] == {"stopReason": "cancelled"}
        assert (await ann.ask("session/prompt", prompt("echo after")))["result"] == {"stopReason": "end_turn"}
        assert "too late" not in str(ann.frames)
        await check_log(house, session["sessionId"])


async def test_an_outcome_that_was_kept_though_the_log_failed_is_the_one_that_is_told(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit() as ann, asyncio.timeout(PATIENCE):
        session = await ann.new_session(tmp_path)
        append = house.gateway.engine.append

        async def losing(lease: Any, entries: Any, after: int) -> None:
            await append(lease, entries, after)
            if any(b'"ended"' in entry.frame for entry in entries):
                raise EngineFailure("the acknowledgement was lost")

        house.gateway.engine.append = losing  # type: ignore[method-assign]
        assert (await outcome(session, "hello", key="k")).stop_reason == "end_turn"
        house.gateway.engine.append = append  # type: ignore[method-assign]
        assert (await outcome(session, "hello", key="k")).stop_reason == "end_turn"
        assert (await outcome(session, "more")).stop_reason == "end_turn"
        await check_log(house, session.id)


async def test_a_lost_acknowledgement_of_the_log_is_noticed_by_nobody(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit() as ann, asyncio.timeout(PATIENCE):
        session = await ann.new_session(tmp_path)
        append, written = house.gateway.engine.append, set[int]()

        async def losing(lease: Any, entries: Any, after: int) -> None:
            await append(lease, entries, after)
            if after not in written:
                written.add(after)
                raise EngineFailure("the acknowledgement was lost")

        house.gateway.engine.append = losing  # type: ignore[method-assign]
        for words in ("one", "two"):
            assert (await outcome(session, f"echo {words}")).stop_reason == "end_turn"
        updates = [json.loads(frame)["params"]["update"] for frame in ann.told[session.id]]
        said = [u["content"]["text"] for u in updates if u["sessionUpdate"] == "agent_message_chunk"]
        assert said == ["one", "two"]
        assert ann.numbers(session.id) == sorted(set(ann.numbers(session.id)))
        assert len(written) > 2
        await check_log(house, session.id)


async def test_everybody_at_a_session_stays_while_its_log_is_broken(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit() as ann, house.visit() as other:
        session = await ann.new_session(tmp_path)
        theirs = await other.load_session(session.id, tmp_path)
        await fill_disk(house)
        with pytest.raises(InternalError):
            await session.prompt("echo " + "x" * 100_000)
        await fill_disk(house, room=-1)
        assert (await theirs.prompt("echo back")).stop_reason == "end_turn"
        await ann.until(lambda: b"back" in ann.told[session.id][-1])
        await check_log(house, session.id)


async def test_an_agent_that_is_just_being_asked_for_a_session_is_not_ended_as_idle(tmp_path: Path) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    class Slow(Agent):
        async def opened(self, session: Any) -> None:
            asked.set()
            await go_on.wait()

    clock = Clock()
    async with hosting(tmp_path, Slow, clock=clock) as house, house.visit() as ann, asyncio.timeout(PATIENCE):
        for _ in range(3):  # between two rounds it is needed each time, and in none
            await house.gateway.upkeep()
            clock.now += 0.9 * IDLE
            asked.clear()
            go_on.clear()
            opening = asyncio.ensure_future(ann.new_session(tmp_path))
            await asked.wait()
            for _ in range(3):  # however long it takes
                await house.gateway.upkeep()
                clock.now += 0.9 * IDLE
            await asyncio.sleep(0)  # what the last round began has begun
            assert [upstream.is_alive for *_, upstream in house.gateway.processes.running.entries()] == [True]
            go_on.set()
            session = await opening
            await ann.agent.request("session/close", {"sessionId": session.id})


async def test_a_round_of_upkeep_that_fails_is_followed_by_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.gateway.gateway.RENEW_EVERY", 0.01)
    async with hosting(tmp_path, Testy) as house, house.visit() as ann, asyncio.timeout(PATIENCE):
        session = await ann.new_session(tmp_path)
        keep_up, fails = house.gateway.engine.keep_up, [True]

        async def failing(*arguments: Any) -> Any:
            if fails[0]:
                raise TimeoutError("for no reason")
            return await keep_up(*arguments)

        house.gateway.engine.keep_up = failing  # type: ignore[method-assign]
        await until(house.gateway.unready)
        assert house.gateway.unready() == ["upkeep fails: for no reason"]
        own = f"Host: localhost:{house.server.port}"
        assert await ask(house.server.port, own, path="/readyz") == 503
        fails[0] = False
        await until(lambda: not house.gateway.unready())
        assert await ask(house.server.port, own, path="/readyz") == 200
        assert (await session.prompt("hello")).stop_reason == "end_turn"


def test_every_task_of_the_gateway_has_an_owner() -> None:
    elsewhere = {"workers.py", "attachment.py", "returning.py"}  # what gives them owners, and a client's side
    starts = []
    for file in Path(dragoman.gateway.__file__).parent.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(file.read_text()))) if file.name not in elsewhere else []
        withs = (item for node in nodes if isinstance(node, ast.AsyncWith) for item in node.items)
        groups = {  # a group owns its tasks
            ast.unparse(item.optional_vars)
            for item in withs
            if item.optional_vars and ast.unparse(item.context_expr) == "asyncio.TaskGroup()"
        }
        for node in nodes:
            if (
                isinstance(node, ast.Attribute)
                and node.attr == "create_task"
                and ast.unparse(node.value) not in groups
            ):
                starts.append(f"{file.name}:{node.lineno}")
    assert not starts, f"start these with workers.owned, so that somebody hears of their death: {starts}"
