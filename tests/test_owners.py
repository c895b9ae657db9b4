"""Every task, process, update and error has an owner, however things end, are cancelled, or do not fit."""

import asyncio
import contextlib
import functools
import gc
import itertools
import os
import resource
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from leftovers import descriptors
from torture.by_hand import (
    PATIENCE,
    Hand,
    Ponging,
    PongingClient,
    facing_agent,
    facing_client,
    note,
    request,
    result,
    stdio_wire,
)
from torture.by_hand import update as chunk

from dragoman import (
    Agent,
    AgentExited,
    Client,
    ConnectionClosed,
    Error,
    LocalProtocolError,
    NotOffered,
    Session,
    Turn,
    connect,
    extension,
    serve_on,
)
from dragoman import schema as s
from dragoman.agent.turn import AgentSession
from dragoman.client.inbox import Inbox
from dragoman.testing import Testy, pair

pytestmark = pytest.mark.usefixtures("nothing_left")

TEXT = [{"type": "text", "text": "go"}]


async def turning_until(condition: Callable[[], object]) -> None:
    """Let the loop turn until something has happened inside that nobody is told of."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


async def opened(client: Client, hand: Hand) -> Session:
    """A session that the hand has opened for a client."""
    opening = asyncio.create_task(client.new_session("/"))
    hand.send(result((await hand.receive())["id"], {"sessionId": "s1"}))
    return await opening


def texts(events: list[Any]) -> list[str]:
    return [event.content.text for event in events if isinstance(event, s.AgentMessageChunk)]


# The end of a connection


async def test_a_request_that_arrives_while_we_hang_up_starts_no_handler() -> None:
    began: list[str] = []
    ended: list[str] = []

    class Asked(PongingClient):
        @extension("_ask")
        async def ask(self, params: Any) -> None:
            began.append(params)
            try:
                await asyncio.Event().wait()
            finally:
                hand.send(request("b", "_ask", ["second"]))
                for _ in range(5):
                    await asyncio.sleep(0)
                ended.append(params)

    async with facing_client(Asked()) as (_, hand):
        hand.send(request("a", "_ask", ["first"]))
        await turning_until(lambda: began)
    assert began == ended == [["first"]]


EXITING = """
import sys
for line in sys.stdin:
    id = line.split('"id":')[1].split(",")[0]
    print('{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":1}}' % id)
    print('{"jsonrpc":"2.0","id":1,"method":"_ask","params":{}}', flush=True)
    sys.exit(7)
"""


async def test_who_hung_up_is_remembered_though_we_hang_up_too() -> None:
    class Asked(Client):
        @extension("_ask")
        async def ask(self, params: Any) -> None:
            await asyncio.Event().wait()

    async with connect([sys.executable, "-I", "-S", "-c", EXITING], Asked()) as client:
        await turning_until(lambda: client.closed)
    assert isinstance(client.closed, AgentExited)
    assert client.closed.status == 7


async def test_each_prompt_that_fails_with_the_connection_raises_an_error_of_its_own() -> None:
    async with facing_client() as (client, hand):
        session = await opened(client, hand)
        prompts = [session.prompt("go") for _ in range(400)]
        await hand.transport.close()
        told = []
        for prompt in prompts:
            with pytest.raises(ConnectionClosed) as caught:
                await prompt
            told.append(caught.value)
        assert len(set(map(id, told))) == 400
        assert len("".join(traceback.format_exception(told[-1]))) < 5000


async def test_a_handler_that_wants_to_exit_ends_its_request_and_not_the_program() -> None:
    class Exiting(PongingClient):
        async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
            raise SystemExit(3)

    async with facing_client(Exiting()) as (_, hand):
        hand.send(permission("a"))
        assert (await hand.receive())["error"]["code"] == -32603
        await hand.ping()


async def test_waits_that_are_cancelled_leave_nothing_behind() -> None:
    async with facing_client() as (client, hand):
        session = await opened(client, hand)
        prompt = session.prompt("go")
        before = _futures()
        for _ in range(5000):
            waiting = asyncio.ensure_future(anext(prompt))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
        assert _futures() - before < 100
        session.cancel()


def _futures() -> int:
    gc.collect()
    return sum(isinstance(found, asyncio.Future) for found in gc.get_objects())


# What cannot be kept


@contextlib.contextmanager
def lacking(what: str) -> Iterator[None]:
    """Have the operating system refuse new descriptors, or files larger than 1 MiB, for a while."""
    kind = resource.RLIMIT_NOFILE if what == "descriptors" else resource.RLIMIT_FSIZE
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (200 if what == "descriptors" else 1024 * 1024, hard))
    taken: list[int] = []
    try:
        if what == "descriptors":
            with contextlib.suppress(OSError):
                while True:
                    taken.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))
        for fd in taken:
            os.close(fd)


@pytest.mark.parametrize("what", ["descriptors", "disk"])
async def test_updates_that_cannot_be_kept_end_their_turn_with_an_error_and_no_other(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.client.inboxes.Inbox", functools.partial(Inbox, memory=1000))
    async with facing_client() as (client, hand):
        lost, other = await opened(client, hand), client.session("s2")
        turns = [lost.prompt("go"), other.prompt("go")]
        ids = [(await hand.receive())["id"] for _ in turns]
        with lacking(what):
            for number in range(40):
                hand.send(chunk("s1", f"{number} ".ljust(100_000, ".")))
            hand.send(chunk("s2", "here"), result(ids[0], {"stopReason": "end_turn"}))
            await hand.ping()
        await hand.transport.close()
        with pytest.raises(ConnectionClosed):
            await turns[1]
        seen: list[Any] = []
        with pytest.raises(Error, match="could not be kept"):
            async for event in turns[0]:
                seen.append(event)
        numbers = [int(text.split()[0]) for text in texts(seen)]
        assert numbers == list(range(len(numbers)))
        assert 0 < len(numbers) < 40


async def test_updates_before_a_session_is_open_are_all_kept() -> None:
    async with facing_client() as (client, hand):
        opening = asyncio.create_task(client.new_session("/"))
        id = (await hand.receive())["id"]
        hand.send(*[chunk("s1", f"{number} ".ljust(1000, ".")) for number in range(300)])
        hand.send(result(id, {"sessionId": "s1"}))
        session = await opening
        assert [int(text.split()[0]) for text in texts(list(session.backlog()))] == list(range(300))


async def test_too_many_updates_before_a_session_is_open_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.client.inboxes.OPENING_DISK", 1_000_000)
    async with facing_client() as (client, hand):
        opening = asyncio.create_task(client.new_session("/"))
        id = (await hand.receive())["id"]
        for number in range(30):
            hand.send(chunk("s1", f"{number} ".ljust(100_000, ".")))
        hand.send(result(id, {"sessionId": "s1"}))
        session = await opening
        with pytest.raises(Error, match="more updates than can be kept"):
            list(session.backlog())
        hand.send(chunk("s1", "later"))
        await hand.ping()
        assert texts(list(session.backlog())) == ["later"]


async def test_dropped_updates_of_a_session_nobody_opened_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with facing_client() as (_, hand):
        hand.send(*[chunk("stranger", "x" * 1000) for _ in range(200)])
        await hand.ping()
    assert next(record.levelname for record in caplog.records if "'stranger'" in record.message) == "WARNING"


async def test_a_load_that_is_cancelled_keeps_nothing() -> None:
    async with facing_client() as (client, hand):
        client.agent.offers = s.AgentCapabilities(load_session=True)
        before = descriptors()
        loading = asyncio.create_task(client.load_session("s1", "/"))
        await hand.receive()
        hand.send(*[chunk("s1", "x" * 100_000) for _ in range(80)])
        await hand.ping()
        assert descriptors() != before
        loading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loading
        assert descriptors() == before


async def test_closing_a_session_keeps_nothing_of_it_though_the_agent_offers_no_close(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dragoman.client.inboxes.Inbox", functools.partial(Inbox, memory=1000))
    async with facing_client() as (client, hand):
        before = descriptors()
        for _ in range(20):
            session = await opened(client, hand)
            hand.send(*[chunk("s1", "x" * 100_000) for _ in range(15)])
            await hand.ping()
            with pytest.raises(NotOffered):
                await session.close()
        assert descriptors() == before


async def test_a_reader_that_lags_behind_keeps_no_more_on_disk_than_its_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit = 4 * 1024 * 1024
    monkeypatch.setattr("dragoman.client.inboxes.Inbox", functools.partial(Inbox, memory=1000, disk=limit))
    async with facing_client() as (client, hand):
        before = descriptors()
        session = await opened(client, hand)
        reading = session.updates()
        sent = most = 0
        for read in range(400):
            while sent < min(read + 25, 400):  # the reader is 2.5 MB behind, all the time
                hand.send(chunk("s1", f"{sent} ".ljust(100_000, ".")))
                sent += 1
                await asyncio.sleep(0)
            update = await anext(reading)
            assert isinstance(update, s.AgentMessageChunk) and isinstance(update.content, s.TextContent)
            assert update.content.text.startswith(f"{read} ")
            most = max(most, sum(os.fstat(fd).st_size for fd, _ in descriptors() - before))
        assert limit / 4 < most < 1.5 * limit
        await reading.aclose()


async def test_a_session_opened_for_somebody_who_was_cancelled_is_closed_again() -> None:
    async with facing_client() as (client, hand):
        client.agent_capabilities = s.AgentCapabilities(
            session_capabilities=s.SessionCapabilities(close=s.SessionCloseCapabilities())
        )
        opening = asyncio.create_task(client.new_session("/"))
        id = (await hand.receive())["id"]
        opening.cancel()
        assert (await hand.receive())["method"] == "$/cancel_request"
        hand.send(result(id, {"sessionId": "s1"}))
        closing = await hand.receive()
        assert (closing["method"], closing["params"]) == ("session/close", {"sessionId": "s1"})


# What we send is what we accept


class Verbose(Agent):
    async def answer(self, turn: Turn) -> None:
        await turn.say("x" * (17 * 1024 * 1024) + "end")
        await turn.think("y" * (17 * 1024 * 1024))


async def test_a_text_larger_than_a_message_arrives_in_pieces() -> None:
    ours, theirs = await stdio_wire()
    serving = asyncio.create_task(serve_on(Verbose, theirs))
    async with connect(ours) as client:
        session = await client.new_session("/")
        events = [event async for event in session.prompt("go")]
    await serving
    said = "".join(texts(events))
    assert (len(said), said[-4:]) == (17 * 1024 * 1024 + 3, "xend")
    thought = [event for event in events if isinstance(event, s.AgentThoughtChunk)]
    assert len({chunk.message_id for chunk in thought}) == 1
    assert sum(len(chunk.content.text) for chunk in thought) == 17 * 1024 * 1024  # type: ignore[union-attr]


@pytest.mark.parametrize("what", ["too deep", "too large"])
async def test_what_the_client_would_drop_raises_where_it_is_sent(what: str) -> None:
    nested: Any = []
    for _ in range(130):
        nested = [nested]
    content = nested if what == "too deep" else "x" * (17 * 1024 * 1024)
    raised: list[Exception] = []

    class Careless(Agent):
        async def answer(self, turn: Turn) -> None:
            async with turn.tool("Read") as call:
                try:
                    await call.update(raw_output=content)
                except Exception as exc:
                    raised.append(exc)

        @extension("_get")
        async def get(self, params: Any) -> Any:
            return content

    async with pair(Careless) as client:
        session = await client.new_session("/")
        assert (await session.prompt("go")).stop_reason == "end_turn"
        assert [type(exc) for exc in raised] == [LocalProtocolError]
        with pytest.raises(LocalProtocolError):
            await client.agent.request("_get", content)
        with pytest.raises(Error, match="Internal error"):
            await client.agent.request("_get")


# Who asks and does not listen

SWAMPED = """
import asyncio
from dragoman import Agent, extension, serve

class Swamped(Agent):
    @extension("_echo")
    async def echo(self, params):
        return params

    @extension("_wait")
    async def wait(self, params):
        await asyncio.Event().wait()

serve(Swamped)
"""


@pytest.mark.parametrize("method", ["_echo", "_wait"])
async def test_requests_of_a_client_that_takes_no_answers_do_not_fill_the_agent(method: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", SWAMPED), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdin and process.stdout
    try:
        process.stdin.write(b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\n')
        await process.stdout.readline()
        started, pad = _peak(process.pid), b"x" * 1_000_000
        frame = b'{"jsonrpc":"2.0","id":%d,"method":"' + method.encode() + b'","params":{"pad":"' + pad + b'"}}\n'
        for id in range(1, 400):
            process.stdin.write(frame % id)
            try:
                async with asyncio.timeout(1):
                    await process.stdin.drain()
            except TimeoutError:
                break  # it does not take any more
        assert _peak(process.pid) - started < 200 * 1024 * 1024
    finally:
        process.kill()
        await process.communicate()


def _peak(pid: int) -> int:
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))


# Cancelled is a state


def permission(id: str) -> dict[str, Any]:
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
    params = {"sessionId": "s1", "toolCall": {"toolCallId": "c1", "title": "Delete"}, "options": options}
    return request(id, "session/request_permission", params)


YES = s.RequestPermissionResponse(outcome=s.SelectedPermissionOutcome(option_id="yes"))
CANCELLED = {"outcome": {"outcome": "cancelled"}}


class Asking(PongingClient):
    """Says yes to everything it is asked, and remembers being asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
        self.asked += 1
        return YES


async def test_a_question_that_comes_after_a_cancel_is_not_put_to_anybody_until_the_turn_is_answered() -> None:
    asking = Asking()
    async with facing_client(asking) as (client, hand):
        session = await opened(client, hand)
        turn = session.prompt("go")
        id = (await hand.receive())["id"]
        session.cancel()
        next_turn = session.prompt("next")
        assert (await hand.receive())["method"] == "session/cancel"
        next_id = (await hand.receive())["id"]
        hand.send(permission("a"))
        assert (await hand.receive())["result"] == CANCELLED
        assert asking.asked == 0
        hand.send(result(id, {"stopReason": "cancelled"}), permission("b"))
        assert (await hand.receive())["result"] == {"outcome": {"outcome": "selected", "optionId": "yes"}}
        assert asking.asked == 1
        hand.send(result(next_id, {"stopReason": "end_turn"}))
        assert [(await one).stop_reason for one in (turn, next_turn)] == ["cancelled", "end_turn"]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
async def test_a_session_is_cancelled_until_the_last_of_its_cancelled_turns_is_answered(
    order: tuple[int, ...],
) -> None:
    asking = Asking()
    async with facing_client(asking) as (client, hand):
        session = await opened(client, hand)
        turns = [session.prompt(text) for text in ("one", "two", "three")]
        ids = [(await hand.receive())["id"] for _ in turns]
        session.cancel()
        assert (await hand.receive())["method"] == "session/cancel"
        for at in order:
            hand.send(permission(f"before {at}"))
            assert (await hand.receive())["result"] == CANCELLED
            hand.send(result(ids[at], {"stopReason": "cancelled"}))
        hand.send(permission("afterwards"))
        assert (await hand.receive())["result"] != CANCELLED
        assert [(await turn).stop_reason for turn in turns] == ["cancelled"] * 3


async def test_a_session_that_is_closed_here_stays_cancelled_until_its_turn_is_answered() -> None:
    asking = Asking()
    async with facing_client(asking) as (client, hand):
        session = await opened(client, hand)
        turn = session.prompt("go")
        id = (await hand.receive())["id"]
        with pytest.raises(NotOffered):
            await session.close()
        client.session("s1").cancel()  # whoever finds it again cancels what is under way, too
        assert (await hand.receive())["method"] == "session/cancel"
        hand.send(permission("a"))
        assert (await hand.receive())["result"] == CANCELLED
        hand.send(result(id, {"stopReason": "cancelled"}), permission("b"))
        assert (await hand.receive())["result"] != CANCELLED
        assert (await turn).stop_reason == "cancelled"


async def test_a_question_in_the_same_read_as_what_led_to_the_cancel_is_not_asked() -> None:
    class Strict(Asking):
        def update(self, params: s.SessionNotification) -> None:
            super().update(params)
            session.cancel()

    asking = Strict()
    async with facing_client(asking) as (client, hand):
        session = await opened(client, hand)
        turn = session.prompt("go")
        id = (await hand.receive())["id"]
        hand.send(permission("before"), chunk("s1", "now I will"), permission("after"))
        answers = [message for message in [await hand.receive() for _ in range(3)] if "result" in message]
        assert [answer["result"] for answer in answers] == [CANCELLED, CANCELLED]
        assert asking.asked == 0
        hand.send(result(id, {"stopReason": "cancelled"}))
        await turn


async def test_a_handler_that_will_not_be_cancelled_cannot_allow_anything() -> None:
    released = asyncio.Event()

    class Stubborn(Asking):
        async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
            self.asked += 1
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await released.wait()
            return YES

    asking = Stubborn()
    async with facing_client(asking) as (client, hand):
        session = await opened(client, hand)
        turn = session.prompt("go")
        id = (await hand.receive())["id"]
        hand.send(permission("a"))
        await turning_until(lambda: asking.asked)
        session.cancel()
        messages = [await hand.receive(), await hand.receive()]
        assert [m.get("method") or m["result"] for m in messages] == ["session/cancel", CANCELLED]
        released.set()
        assert await hand.ping() == []
        hand.send(result(id, {"stopReason": "cancelled"}))
        await turn


class Late(Ponging):
    """Looks something up before it lets the library have a prompt."""

    async def prompt(self, params: s.PromptRequest) -> s.PromptResponse:
        for _ in range(5):
            await asyncio.sleep(0)
        return await super().prompt(params)

    async def answer(self, turn: Turn) -> None:
        await asyncio.Event().wait()


class Deaf(Late):
    """Does not care to be cancelled before it has begun."""

    async def prompt(self, params: s.PromptRequest) -> s.PromptResponse:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(1)
        return await super().prompt(params)


@pytest.mark.parametrize("agent", [Late, Deaf])
async def test_a_prompt_is_cancelled_though_its_agent_has_not_begun_with_it(agent: type[Agent]) -> None:
    async with facing_agent(agent) as hand:
        session = (await hand.ask("session/new", {"cwd": "/", "mcpServers": []}))["result"]["sessionId"]
        prompt = request("p", "session/prompt", {"sessionId": session, "prompt": TEXT})
        hand.send(prompt, note("session/cancel", {"sessionId": session}))
        assert (await hand.until("p"))[-1]["result"] == {"stopReason": "cancelled"}


async def test_a_cancelled_await_of_a_prompt_cancels_the_turn() -> None:
    async with pair(Testy) as client:
        session = await client.new_session("/")
        turn = session.prompt("wait")
        waiting = asyncio.ensure_future(turn)
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await turn).stop_reason == "cancelled"


async def test_a_cancelled_await_of_one_prompt_leaves_the_others_alone() -> None:
    async with facing_client() as (client, hand):
        session = await opened(client, hand)
        turns = [session.prompt("one"), session.prompt("two")]
        ids = [(await hand.receive())["id"] for _ in turns]
        waiting = asyncio.ensure_future(turns[1])
        await asyncio.sleep(0)
        waiting.cancel()
        told = await hand.receive()
        assert (told["method"], told["params"]) == ("$/cancel_request", {"requestId": ids[1]})
        hand.send(*[result(id, {"stopReason": "end_turn"}) for id in ids])
        assert (await turns[0]).stop_reason == "end_turn"


async def test_a_cancelled_await_of_one_prompt_leaves_those_of_the_session_loaded_again_alone() -> None:
    async with facing_client() as (client, hand):
        before = await opened(client, hand)
        turn = before.prompt("before")
        id = (await hand.receive())["id"]
        with pytest.raises(NotOffered):
            await before.close()
        again = client.session("s1").prompt("again")
        again_id = (await hand.receive())["id"]
        waiting = asyncio.ensure_future(turn)
        await asyncio.sleep(0)
        waiting.cancel()
        told = await hand.receive()
        assert (told["method"], told["params"]) == ("$/cancel_request", {"requestId": id})
        hand.send(*[result(each, {"stopReason": "end_turn"}) for each in (id, again_id)])
        assert (await again).stop_reason == "end_turn"


# A prompt owns its updates


async def test_two_queued_prompts_with_a_reader_each_get_their_own_updates() -> None:
    async with facing_client() as (client, hand):
        session = await opened(client, hand)

        async def read(text: str) -> list[str]:
            events = []
            async for event in session.prompt(text):
                events.append(event)
                for _ in range(3):  # it has other things to do in between
                    await asyncio.sleep(0)
            return texts(events)

        reading = [asyncio.create_task(read(text)) for text in ("a", "b")]
        for id, said in [((await hand.receive())["id"], text) for text in ("a", "b")]:
            for number in range(4):
                hand.send(chunk("s1", f"{said}{number}"))
                await hand.ping()
            hand.send(result(id, {"stopReason": "end_turn"}))
        assert await asyncio.gather(*reading) == [["a0", "a1", "a2", "a3"], ["b0", "b1", "b2", "b3"]]


async def test_a_prompt_does_not_show_what_an_abandoned_one_said() -> None:
    async with pair(Testy) as client:
        session = await client.new_session("/")
        async for event in session.prompt("echo first\necho unread"):
            if texts([event]):
                break
        assert texts([event async for event in session.prompt("echo second")]) == ["second"]
        kept = session.prompt("echo third\necho rest")
        while not texts([await anext(kept)]):
            pass
        assert texts([event async for event in session.prompt("echo fourth")]) == ["fourth"]
        assert texts([event async for event in kept]) == ["rest"]


async def test_nothing_is_kept_of_a_prompt_that_was_let_go_once_the_next_is_sent() -> None:
    async with pair(Testy) as client:
        session = await client.new_session("/")
        async for event in session.prompt("echo first\necho unread"):
            if texts([event]):
                break
        await session.prompt("echo second")
        assert texts(list(session.backlog())) == []


async def test_whoever_reads_a_whole_session_gets_every_prompt_in_order() -> None:
    async with pair(Testy) as client:
        session = await client.new_session("/")
        seen: list[Any] = []

        async def read() -> None:
            async for update in session.updates():
                seen.append(update)

        reading = asyncio.create_task(read())
        for text in ("echo one", "echo two", "echo three"):
            turn = session.prompt(text)
            await turning_until(lambda turn=turn: turn._turn.reply)
        await turning_until(lambda: len(texts(seen)) == 3)
        assert texts(seen) == ["one", "two", "three"]
        reading.cancel()


async def test_updates_between_turns_come_ahead_of_the_next_turn() -> None:
    async with facing_client() as (client, hand):
        session = await opened(client, hand)
        hand.send(chunk("s1", "between"))
        await hand.ping()
        turn = session.prompt("go")
        id = (await hand.receive())["id"]
        hand.send(chunk("s1", "within"), result(id, {"stopReason": "end_turn"}), chunk("s1", "after"))
        assert texts([event async for event in turn]) == ["between", "within"]
        await hand.ping()
        assert texts(list(session.backlog())) == ["after"]


# Where a request is answered by more than one task


async def test_commands_are_announced_though_the_session_is_opened_in_a_task_of_its_own() -> None:
    class Careful(Testy):
        async def new_session(self, params: s.NewSessionRequest) -> s.NewSessionResponse:
            return await asyncio.wait_for(super().new_session(params), PATIENCE)

    async with pair(Careful) as client:
        session = await client.new_session("/")
        async with asyncio.timeout(PATIENCE):
            assert isinstance(await anext(session.updates()), s.AvailableCommandsUpdate)


async def test_the_id_of_a_request_is_known_in_the_tasks_it_starts() -> None:
    class Knowing(Ponging):
        @extension("_id")
        async def id(self, params: Any) -> Any:
            async def inner() -> Any:
                return self.client.wire.request_id

            return await asyncio.create_task(inner())

    async with facing_agent(Knowing) as hand:
        hand.request("the id", "_id")
        assert (await hand.until("the id"))[-1]["result"] == "the id"


async def test_a_session_opened_outside_of_any_request_announces_its_commands_too() -> None:
    class Eager(Testy):
        async def answer(self, turn: Turn) -> None:
            params = s.NewSessionRequest(cwd="/", mcp_servers=[])
            opening: asyncio.Task[AgentSession] = asyncio.create_task(self.open_session("s2", params))
            await opening

    async with pair(Eager) as client:
        session = await client.new_session("/")
        await session.prompt("go")
        async with asyncio.timeout(PATIENCE):
            assert isinstance(await anext(client.session("s2").updates()), s.AvailableCommandsUpdate)
