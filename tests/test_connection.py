"""A peer over a real wire: it survives whatever arrives, answers everything once, and ends clean."""

import asyncio
import functools
import inspect
import logging
import os
import random
import string
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import pytest
from torture.by_hand import (
    INITIALIZE,
    Hand,
    Ponging,
    PongingClient,
    cancel_request,
    facing_agent,
    facing_client,
    note,
    opened,
    request,
    resident,
    result,
    stdio_wire,
    update,
)
from torture.cancels import Busy, Yielding, cancel_anyhow, cancel_everywhere
from torture.crashes import kill_at_offsets
from torture.ends import Slow, half_close, pipes, shut, sockets
from torture.failures import CANCELLED, FAILURES, FIT, INTERNAL, SECRET, TOLD, Failing
from torture.floods import both_at_once, cancel_in_flood, held_back, unread
from torture.fuzz import fuzz
from torture.hostile import SNIPPETS
from torture.noise import babble
from torture.writers import crowd

from dragoman import (
    Agent,
    Client,
    ConnectionClosed,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimeout,
    Session,
    Turn,
    connect,
    extension,
    serve_on,
)
from dragoman import schema as s
from dragoman.client.inbox import Inbox
from dragoman.connection.connection import Connection
from dragoman.connection.remotes import RemoteAgent, RemoteClient
from dragoman.connection.reports import NOISY
from dragoman.events import Method
from dragoman.framing import MAX_FRAME, join_lines
from dragoman.roles import AgentRole, ClientRole, methods, offered
from dragoman.testing import Testy
from dragoman.transports.memory import pipe

pytestmark = pytest.mark.usefixtures("nothing_left")

ASK = Method("_ask", Any, Any)
TELL = Method("_tell", Any, is_request=False)


async def turning_until(condition: Callable[[], object]) -> None:
    """Let the loop turn until something has happened inside that nobody is told of."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


# One bad frame never ends a connection (T01)


@pytest.mark.parametrize(
    ("role", "wire", "count", "limit"),
    [
        ("agent", "memory", 1500, MAX_FRAME),
        ("client", "memory", 1500, MAX_FRAME),
        ("agent", "stdio", 500, MAX_FRAME),
        ("client", "stdio", 500, MAX_FRAME),
        ("agent", "stdio", 500, 200),
        ("client", "stdio", 500, 200),
    ],
)
async def test_frames_nobody_should_send_end_nothing(role: str, wire: str, count: int, limit: int) -> None:
    figures = await fuzz(role, wire, count=count, seed=1, limit=limit)
    assert figures["frames"] == count
    assert figures["grown"] < 20 * 1024 * 1024


@pytest.mark.parametrize("wire", ["memory", "stdio", "socket"])
@pytest.mark.parametrize("role", ["agent", "client"])
async def test_no_line_ends_a_connection_by_itself(role: str, wire: str) -> None:
    lines = [snippet.encode().replace(b"\n", b" ") for snippet in SNIPPETS]
    lines += [
        b"[" * 70_000,
        b"x" * 1_000_000,
        b'{"jsonrpc":"2.0","id":[1],"result":{}}',
        b'{"jsonrpc":"2.0","error":"x"}',
    ]
    if role == "agent":
        async with facing_agent(wire=wire) as hand:
            for line in lines:
                hand.send(line)
                await hand.ping()
    else:
        async with facing_client(wire=wire) as (_, hand):
            for line in lines:
                hand.send(line)
                await hand.ping()


async def test_what_comes_behind_a_bad_frame_is_still_read() -> None:
    async with facing_agent() as hand:
        hand.send(
            b'{"id":1.5, nope', request("a", "_ping"), b"\xff", request("b", "_ping"), b"[]", request("c", "_ping")
        )
        answers = await hand.until("c")
        assert [answer["id"] for answer in answers] == [None, None, None, "a", "b", "c"]


async def test_a_notification_handler_that_fails_stops_nothing() -> None:
    class Fragile(PongingClient):
        def update(self, params: s.SessionNotification) -> None:
            raise KeyboardInterrupt

    async with facing_client(Fragile()) as (_, hand):
        hand.send(update("s1", "one"), request("a", "_ping"))
        assert (await hand.receive())["id"] == "a"


# Frames of every size (T03)

SIZES = [64 * 1024 - 1, 64 * 1024, 64 * 1024 + 1, 1024 * 1024, int(15.9 * 1024 * 1024), MAX_FRAME]


def sized(id: Any, size: int) -> bytes:
    """A request that is exactly so long."""
    empty = msgspec.json.encode(request(id, "_echo", {"text": ""}))
    return empty[:-3] + b"x" * (size - len(empty)) + empty[-3:]


@pytest.mark.parametrize("size", SIZES)
async def test_a_frame_of_any_size_up_to_the_limit_arrives_byte_by_byte(size: int) -> None:
    async with facing_agent(wire="stdio") as hand:
        frame = sized("big", size)
        assert len(frame) == size
        hand.send(frame)
        text = msgspec.json.decode(frame)["params"]["text"]
        assert await hand.receive() == result("big", {"text": text})


async def test_a_frame_beyond_the_limit_is_refused_with_its_id_and_the_next_one_answered() -> None:
    async with facing_agent(wire="stdio") as hand:
        hand.send(sized("too big", MAX_FRAME + 1))
        refusal = await hand.receive()
        assert (refusal["id"], refusal["error"]["code"]) == ("too big", -32600)
        assert await hand.ping() == []


async def test_a_frame_beyond_the_limit_is_refused_by_its_id_if_either_end_shows_it() -> None:
    async with facing_agent(wire="stdio", limit=10_000) as hand:
        last = b'{"jsonrpc":"2.0","method":"_echo","params":{"text":"%s"},"id":5}' % (b"x" * 20_000)
        hidden = b'{"jsonrpc":"2.0","x":"%b","id":5,"params":{"text":"%b"}}' % (b"x" * 20_000, b"x" * 20_000)
        for line, id in ((last, 5), (hidden, None)):
            hand.send(line)
            refusal = await hand.receive()
            assert (refusal["id"], refusal["error"]["code"]) == (id, -32600)
        assert await hand.ping() == []


async def test_an_answer_beyond_the_limit_fails_its_request() -> None:
    async with facing_client(wire="stdio", limit=10_000) as (client, hand):
        asking = [asyncio.create_task(client.connection.call(ASK, {})) for _ in range(2)]
        first, second = [(await hand.receive())["id"] for _ in asking]
        hand.send(result(first, {"text": "x" * 20_000}))
        hand.send({"jsonrpc": "2.0", "id": second, "error": {"code": 1, "message": "x" * 20_000}})
        for asked in asking:
            with pytest.raises(RemoteProtocolError, match="too many"):
                async with asyncio.timeout(5):
                    await asked
        assert await hand.ping() == []


# Handlers that fail (T06)


@pytest.mark.parametrize("method", ["_fail", "_fail_later"])
async def test_a_handler_may_fail_in_any_way(method: str, caplog: pytest.LogCaptureFixture) -> None:
    assert len(FAILURES) >= 50
    async with facing_agent(Failing) as hand:
        for how, (_, code) in FAILURES.items():
            caplog.clear()
            hand.request(how, method, {"how": how})
            (answer, *more) = [await hand.receive(), *await hand.ping()]
            assert more == [], how
            assert (answer["id"], answer["error"]["code"]) == (how, code), answer
            assert SECRET not in str(answer), how
            if code == INTERNAL and how not in FIT:
                assert answer["error"]["message"] == "Internal error", how
                assert answer["error"]["data"]["errorId"] in caplog.text, how
            if how in TOLD:
                assert answer["error"]["message"].startswith(("told", "Invalid")), answer


async def test_a_notification_handler_may_fail_in_any_way() -> None:
    async with facing_agent(Failing) as hand:
        for how in FAILURES:
            hand.note("_fail_silently", {"how": how})
        assert await hand.ping() == []


@pytest.mark.parametrize(
    "how", ["value", "system exit", "interrupt", "deep recursion", "cancelled", "invalid params"]
)
async def test_a_turn_may_fail_and_the_next_one_works(how: str) -> None:
    async with facing_agent(Failing) as hand:
        session = (await hand.ask("session/new", {"cwd": "/", "mcpServers": []}))["result"]["sessionId"]
        for _ in range(2):
            answer = await hand.ask(
                "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": how}]}
            )
            assert answer["error"]["code"] == FAILURES[how][1]
            assert SECRET not in str(answer)


async def test_an_error_of_the_peer_comes_back_as_our_own() -> None:
    """An agent whose file the client cannot read has failed itself; the client's code means something else here."""

    class Reading(Agent):
        async def answer(self, turn: Turn) -> None:
            await turn.read("/a")

    async with facing_agent(Reading) as hand:
        session = (await hand.ask("session/new", {"cwd": "/", "mcpServers": []}))["result"]["sessionId"]
        hand.request(1, "session/prompt", {"sessionId": session, "prompt": []})
        asked = await hand.receive()
        hand.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32000, "message": "log in"}})
        answer = await hand.receive()
        assert answer["error"]["code"] == INTERNAL


# Noise (T07)


async def test_noise_between_messages_hides_none_of_them() -> None:
    assert await babble(1000, 100, seed=7) == {"answered": 50, "delivered": 50, "spoken": 0}


async def test_a_peer_that_says_nothing_but_noise_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    async with facing_client() as (_, hand):
        with caplog.at_level(logging.WARNING):
            hand.send(*[b"listening on port 80"] * (NOISY - 1))
            await hand.ping()
            assert not caplog.records
            hand.send(*[b"listening on port 81"] * NOISY)
            assert await hand.ping() == []
            assert len([record for record in caplog.records if "listening" in record.getMessage()]) == 1


async def test_a_noisy_peer_that_talks_too_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    async with facing_client() as (_, hand):
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                hand.send(*[b"listening on port 80"] * (NOISY // 2), update("s1", "hello"))
                await asyncio.sleep(0)
            assert await hand.ping() == []
            assert not caplog.records


# Writing (T09)


async def test_many_senders_never_tear_each_others_frames() -> None:
    assert await crowd(20, 50, 256 * 1024, seed=9) == {"intact": 1000, "torn": 0, "disordered": 0}


async def test_who_never_waits_for_the_wire_is_told_and_can_go_on_later() -> None:
    (ours, theirs), text = pipe(), "x" * 1_000_000
    connection = Connection(theirs)
    running = asyncio.create_task(connection.run())
    with pytest.raises(LocalProtocolError, match="room"):
        for _ in range(100):
            connection.note(TELL, {"text": text})
            await asyncio.sleep(0)
    received: list[Any] = []
    ours.listen(received.extend, lambda: None)
    await connection.room()
    connection.note(TELL, {"text": "again"})
    await connection.room()
    await ours.close()
    await running
    assert msgspec.json.decode(received[-1])["params"] == {"text": "again"}


# The end of the other side (T11)


async def test_an_agent_killed_at_any_byte_is_noticed_at_once() -> None:
    figures = await kill_at_offsets(20, seed=11)
    assert figures["killed"] == 20
    assert figures["slowest"] < 1


async def test_what_was_answered_before_the_end_is_delivered() -> None:
    async with facing_client(wire="stdio") as (client, hand):
        asking = [asyncio.create_task(client.connection.call(ASK, {})) for _ in range(2)]
        first, _ = [(await hand.receive())["id"] for _ in asking]
        hand.send(result(first, {"n": 1}))
        await hand.transport.close()
        async with asyncio.timeout(5):
            assert await asking[0] == {"n": 1}
            with pytest.raises(ConnectionClosed):
                await asking[1]


async def test_everything_fails_at_once_after_the_end() -> None:
    async with facing_client() as (client, hand):
        asking = asyncio.create_task(client.connection.call(ASK, {}))
        await hand.receive()
        await hand.transport.close()
        with pytest.raises(ConnectionClosed) as first:
            await asking
        for _ in range(2):
            with pytest.raises(ConnectionClosed) as later:
                await client.connection.call(ASK, {})
            assert str(later.value) == str(first.value) == str(client.closed)
            assert later.value is not first.value  # each has a traceback of its own
        with pytest.raises(ConnectionClosed):
            client.connection.note(TELL, {})


async def test_whoever_reads_a_session_learns_that_it_is_over() -> None:
    async with facing_client() as (client, hand):
        session = client.session("s1")
        hand.send(update("s1", "last words"))

        async def read() -> list[Any]:
            return [update async for update in session.updates()]

        reading = asyncio.create_task(read())
        await hand.ping()
        await hand.transport.close()
        async with asyncio.timeout(5):
            assert len(await reading) == 1


async def test_a_client_may_leave_while_its_agent_asks_and_asks() -> None:
    """Requests that arrive while the wire is being taken down leave no task behind."""

    class Asking(Agent):
        async def answer(self, turn: Turn) -> None:
            async with asyncio.TaskGroup() as group:
                for _ in range(50):
                    group.create_task(turn.ask(s.ToolCallUpdate(tool_call_id="t")))

    class Thinking(Client):
        async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

    asked = asyncio.Event()
    async with connect(Asking, Thinking()) as client:
        session = await client.new_session()
        session.prompt("go")
        async with asyncio.timeout(5):
            await asked.wait()


async def test_an_agent_may_be_stopped_in_the_middle_of_a_line() -> None:
    ours, theirs = await stdio_wire()
    serving, hand = asyncio.create_task(serve_on(Ponging, theirs)), Hand(ours)
    await hand.ask("initialize", INITIALIZE)
    ours._writer.write(b'{"jsonrpc":"2.0","id":5')  # type: ignore[attr-defined]
    await turning_until(lambda: theirs._framer._line.size)
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    await ours.close()


# Unknown names (T12)


def names(count: int, seed: int) -> Iterator[str]:
    dice, letters = random.Random(seed), string.ascii_letters + string.digits + '/_$.\u00e9\u4e2d \\"'
    for number in range(count):
        yield "".join(dice.choices(letters, k=dice.randint(0, 30))) + str(number)


@pytest.mark.parametrize("role", ["agent", "client"])
async def test_an_unknown_request_is_refused_and_an_unknown_notification_ignored(role: str) -> None:
    async def try_all(hand: Hand) -> None:
        for name in names(500, seed=12):
            hand.send(note(name, {"x": 1}), request(name, name, {"x": 1}))
        for name in names(500, seed=12):
            answer = await hand.receive()
            assert (answer["id"], answer["error"]["code"]) == (name, -32601)
        assert await hand.ping() == []

    if role == "agent":
        async with facing_agent() as hand:
            await try_all(hand)
    else:
        async with facing_client() as (_, hand):
            await try_all(hand)


# Cancelling (T13)


@pytest.mark.parametrize("agent", [Busy, Yielding])
async def test_a_turn_cancelled_anywhere_is_answered_exactly_once(agent: type[Agent]) -> None:
    assert (await cancel_everywhere(agent))["turns"] == 120


async def test_a_turn_cancelled_anyhow_is_answered_exactly_once() -> None:
    assert (await cancel_anyhow(Busy, 300, seed=13))["turns"] == 300


class Waiting(Ponging):
    """Waits for ever, in a turn and in a request."""

    async def answer(self, turn: Turn) -> None:
        await asyncio.Event().wait()

    @extension("_wait")
    async def wait(self, params: Any) -> Any:
        await asyncio.Event().wait()


async def test_a_request_taken_back_in_the_same_breath_is_answered() -> None:
    async with facing_agent(Waiting) as hand:
        hand.send(request(1, "_wait"), cancel_request(1))
        answer = await hand.receive()
        assert (answer["id"], answer["error"]["code"]) == (1, CANCELLED)
        assert await hand.ping() == []


async def test_a_turn_cancelled_in_the_same_breath_is_cancelled() -> None:
    async with facing_agent(Waiting) as hand:
        session = (await hand.ask("session/new", {"cwd": "/", "mcpServers": []}))["result"]["sessionId"]
        prompt = request(1, "session/prompt", {"sessionId": session, "prompt": []})
        hand.send(prompt, note("session/cancel", {"sessionId": session}))
        assert await hand.receive() == result(1, {"stopReason": "cancelled"})


async def test_of_two_requests_with_one_id_only_one_is_cancelled() -> None:
    async with facing_agent(Waiting) as hand:
        hand.send(request(1, "_wait"), request(1, "_wait"), request("1", "_wait"))
        await hand.ping()
        hand.send(cancel_request(1))
        assert (await hand.receive())["error"]["code"] == CANCELLED
        assert await hand.ping() == []
        hand.send(cancel_request(1), cancel_request("1"))
        assert [(await hand.receive())["id"] for _ in range(2)] == [1, "1"]


@pytest.mark.parametrize("target", [99, "1", None, True, 1.0, [], {}])
async def test_cancelling_what_is_not_there_is_ignored(target: Any) -> None:
    async with facing_agent(Waiting) as hand:
        hand.request(1, "_wait")
        hand.send(cancel_request(target), note("$/cancel_request"), note("$/cancel_request", {"requestId": {}}))
        assert await hand.ping() == []


async def test_whoever_stops_waiting_takes_the_request_back() -> None:
    async with facing_client() as (client, hand):
        asking = asyncio.create_task(client.connection.call(ASK, {}))
        id = (await hand.receive())["id"]
        asking.cancel()
        assert await hand.receive() == cancel_request(id)
        hand.send(result(id, {"late": True}), result(id, {"late": True}))
        assert await hand.ping() == []


# Batches (T14)


@pytest.mark.parametrize("wire", ["memory", "stdio"])
async def test_a_batch_is_refused_and_the_connection_lives(wire: str) -> None:
    dice = random.Random(14)
    members = [request(1, "_ping"), note("_ping"), result(1, {}), 5, None, "x", [], {}, {"jsonrpc": "2.0"}]
    async with facing_agent(wire=wire) as hand:
        for _ in range(200):
            batch = dice.choices(members, k=dice.randint(0, 5))
            hand.send(msgspec.json.encode(batch))
            refusals = [(refusal["id"], refusal["error"]["code"]) for refusal in await hand.ping()]
            named = batch.count(members[0])
            is_answer = members[2] in batch
            assert refusals == ([(1, -32600)] * named or ([] if is_answer else [(None, -32600)]))


# Pressure (T15, T16)


async def test_updates_nobody_reads_are_kept_in_order_and_not_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.client.inboxes.Inbox", functools.partial(Inbox, memory=64 * 1024))
    figures = await unread(20_000)
    print(figures)
    assert (figures["read"], figures["out of order"]) == (20_000, 0)
    assert figures["round trips meanwhile"] > 0
    assert figures["memory"] < 64 * 1024 * 1024


async def test_an_agent_has_to_wait_when_there_is_no_room_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "dragoman.client.inboxes.Inbox", functools.partial(Inbox, memory=64 * 1024, disk=256 * 1024)
    )
    figures = await held_back(20_000)
    assert not figures["is over"]
    assert figures["waiting"] < 2 * 1024 * 1024
    assert figures["all there"]


async def test_room_in_one_session_is_no_room_in_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.client.inboxes.Inbox", functools.partial(Inbox, memory=1000, disk=10_000))
    async with facing_client(wire="stdio") as (client, hand):
        sessions, text = [client.session("s1"), client.session("s2")], "x" * 1000
        hand.send(*[update(session.id, text) for _ in range(20) for session in sessions])
        await turning_until(lambda: all(session._inbox.is_holding for session in sessions))
        list(sessions[0].backlog())
        for _ in range(50):
            hand.send(*[update("s2", text) for _ in range(200)])
            await asyncio.sleep(0)
        assert 0 < sessions[1]._inbox.spooled < 1_000_000

        async def read() -> list[Any]:
            return [update async for update in sessions[1].updates()]

        reading = asyncio.create_task(read())
        await hand.ping()
        await hand.transport.close()
        assert len(await reading) == 20 + 50 * 200


async def test_an_update_that_had_to_be_mended_survives_the_way_over_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.client.inboxes.Inbox", functools.partial(Inbox, memory=10))
    async with facing_client() as (client, hand):
        lone = msgspec.json.encode(update("s1", "HERE")).replace(b"HERE", rb"\ud800")
        hand.send(update("s1", "before"), lone, b"\xef\xbb\xbf" + lone, update("s1", "after"))
        await hand.ping()
        texts = [update.content.text for update in client.session("s1").backlog()]
        assert texts == ["before", "\ufffd", "\ufffd", "after"]


async def test_two_sides_that_ask_at_once_do_not_wait_for_each_other() -> None:
    async with asyncio.timeout(20):
        figures = await both_at_once(500)
    assert figures["answered"] == 1000


async def test_a_flood_holds_up_neither_its_cancellation_nor_another_session() -> None:
    figures = await cancel_in_flood(200_000, times=3)
    print(figures)
    assert figures["cut short"] == 3


# Half of the wire (T19)


async def test_a_half_closed_wire_ends_the_connection_without_a_busy_loop() -> None:
    figures = await half_close(40, seed=19)
    print(figures)
    assert figures["slowest"] < 2
    assert figures["cpu"] < 0.1


@pytest.mark.parametrize("halves", [pipes, sockets])
async def test_answers_in_the_works_are_sent_to_a_peer_that_only_listens_any_more(halves: Any) -> None:
    ends, ours_in, ours_out = halves()
    serving = asyncio.create_task(serve_on(Slow, await opened(*ends)))
    hand = Hand(await opened(ours_in, os.open(os.devnull, os.O_WRONLY)))
    await asyncio.to_thread(write_all, ours_out, request("first", "initialize", INITIALIZE))
    await hand.until("first")
    works = [request(2, "_slow", {"seconds": 0.05}), request(3, "_echo", {"text": "x" * 500_000})]
    await asyncio.to_thread(write_all, ours_out, request(1, "_never"), *works)
    shut(ours_out)
    answers = [await hand.receive() for _ in range(3)]
    assert {answer["id"]: "error" in answer for answer in answers} == {1: True, 2: False, 3: False}
    async with asyncio.timeout(5):
        await serving
        await hand.over.wait()
    await hand.transport.close()


def write_all(fd: int, *messages: dict[str, Any]) -> None:
    os.set_blocking(fd, True)
    with os.fdopen(os.dup(fd), "wb") as file:
        file.write(join_lines(map(msgspec.json.encode, messages)))


async def test_everything_pending_fails_when_the_peer_stops_listening() -> None:
    read_fd, back = os.pipe()
    there, write_fd = os.pipe()
    connection = Connection(await opened(read_fd, write_fd))
    running = asyncio.create_task(connection.run())
    asking = [asyncio.create_task(connection.call(ASK, {"text": "x" * 100_000})) for _ in range(20)]
    await asyncio.sleep(0)
    os.close(there)
    started = time.process_time()
    async with asyncio.timeout(5):
        for asked in asking:
            with pytest.raises(ConnectionClosed):
                await asked
        await running
    assert time.process_time() - started < 0.5
    os.close(back)


# Time limits (T20)


@pytest.fixture
def tiny_timeouts() -> Iterator[None]:
    """Every method that has a time limit has a very short one."""
    limited = [m for role in (AgentRole, ClientRole) for m in methods(role).values() if m.timeout]
    limits = [method.timeout for method in limited]
    for method in limited:
        msgspec.structs.force_setattr(method, "timeout", 0.05)
    yield
    for method, limit in zip(limited, limits, strict=True):
        msgspec.structs.force_setattr(method, "timeout", limit)


def test_the_time_limits_are_those_the_protocol_needs() -> None:
    limits = {m.name: m.timeout for role in (AgentRole, ClientRole) for m in methods(role).values()}
    assert limits["initialize"] is None  # how long an agent may take to start is up to whoever starts it:
    assert inspect.signature(connect).parameters["start_timeout"].default == 60
    assert limits["fs/read_text_file"] == limits["fs/write_text_file"] == limits["terminal/create"] == 600
    assert limits["terminal/output"] == limits["terminal/kill"] == limits["terminal/release"] == 10
    unlimited = ("session/prompt", "session/request_permission", "terminal/wait_for_exit", "elicitation/create")
    assert [limits[name] for name in unlimited] == [None] * len(unlimited)


FILES = s.FileSystemCapabilities(read_text_file=True, write_text_file=True)
LATE: dict[str, Any] = {
    "read_text_file": s.ReadTextFileRequest(session_id="s1", path="/a"),
    "write_text_file": s.WriteTextFileRequest(session_id="s1", path="/a", content=""),
    "create_terminal": s.CreateTerminalRequest(session_id="s1", command="ls"),
    "terminal_output": s.TerminalOutputRequest(session_id="s1", terminal_id="t1"),
    "kill_terminal": s.KillTerminalRequest(session_id="s1", terminal_id="t1"),
    "release_terminal": s.ReleaseTerminalRequest(session_id="s1", terminal_id="t1"),
}


@pytest.mark.usefixtures("tiny_timeouts")
@pytest.mark.parametrize("method", LATE)
async def test_a_client_that_does_not_answer_in_time_is_given_up(method: str) -> None:
    class Impatient(Ponging):
        @extension("_try")
        async def attempt(self, params: Any) -> Any:
            self.client.offers = s.ClientCapabilities(fs=FILES, terminal=True)
            try:
                await getattr(self.client, method)(LATE[method])
            except RequestTimeout as exc:
                return str(exc)

    async with facing_agent(Impatient) as hand:
        hand.request("try", "_try")
        asked, taken_back, answer = [await hand.receive() for _ in range(3)]
        assert taken_back == cancel_request(asked["id"])
        assert answer == result("try", f"{asked['method']} was not answered in 0.05 s")
        hand.send(result(asked["id"], {"content": "late", "terminalId": "t1", "output": "", "truncated": False}))
        assert await hand.ping() == []


async def test_requests_of_one_peer_are_limited_and_those_beyond_refused() -> None:
    async with facing_agent(Waiting) as hand:
        hand.send(*[request(n, "_wait") for n in range(5000)])
        refused = [await hand.receive() for _ in range(5000 - 4096)]
        assert {answer["error"]["code"] for answer in refused} == {-32001}
        assert {answer["id"] for answer in refused} == set(range(4096, 5000))
        hand.send(cancel_request(7))
        assert (await hand.receive())["id"] == 7
        hand.request("again", "_ping")
        assert (await hand.receive())["result"] == {"pong": True}


async def test_answered_requests_leave_nothing_in_memory() -> None:
    async with facing_agent() as hand:
        for _ in range(2):
            before = resident()
            for _ in range(20):
                hand.send(*[request(n, "_echo", {"text": "x" * 200}) for n in range(500)])
                await hand.ping()
        assert resident() - before < 2 * 1024 * 1024


async def test_a_handler_knows_the_id_of_the_request_it_answers() -> None:
    class Naming(Agent):
        @extension("_acme/id")
        async def id(self, params: Any) -> Any:
            await asyncio.sleep(0)
            return {"id": self.client.wire.request_id}

    async with facing_agent(Naming) as hand:
        hand.send(request("first", "_acme/id"), request(7, "_acme/id"))
        assert [(await hand.receive())["result"]["id"] for _ in range(2)] == ["first", 7]
    here, _ = pipe()
    with pytest.raises(LocalProtocolError, match="no request"):
        Connection(here).request_id  # noqa: B018


def test_a_peer_that_has_not_told_its_capabilities_offers_nothing_that_needs_one() -> None:
    for remote, role in ((RemoteAgent, AgentRole), (RemoteClient, ClientRole)):
        optional = [method.capability for method in methods(role).values() if method.capability]
        assert optional and not [one for one in optional if offered(remote.offers, one)]


def test_a_loop_that_stopped_with_messages_to_send_takes_none_from_another_loop() -> None:
    ours, other = asyncio.new_event_loop(), asyncio.new_event_loop()

    async def opened() -> tuple[AbstractAsyncContextManager[Client], Session]:
        connecting = connect(Testy)
        client = await connecting.__aenter__()
        return connecting, await client.new_session()

    async def cancel(session: Session) -> None:
        session.cancel()

    try:
        connecting, session = ours.run_until_complete(opened())
        ours.call_soon(session.cancel)
        ours.call_soon(session.cancel)  # the second of a burst waits to be sent
        ours.call_soon(ours.stop)
        ours.run_forever()
        with pytest.raises(LocalProtocolError, match="another event loop"):
            other.run_until_complete(cancel(session))
        ours.run_until_complete(connecting.__aexit__(None, None, None))
    finally:
        ours.close()
        other.close()
