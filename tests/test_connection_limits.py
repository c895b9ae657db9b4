"""What a peer or a careless handler may take of a connection, and what it gets back."""

import asyncio
import contextlib
from typing import Any

import msgspec
import pytest
from torture.by_hand import Hand, Ponging, cancel_request, facing_agent, request

from dragoman import extension
from dragoman.connection import connection, ending

pytestmark = pytest.mark.usefixtures("nothing_left")


class Waiting(Ponging):
    """Answers `_wait` when it is cancelled."""

    @extension("_wait")
    async def wait(self, params: Any) -> Any:
        await asyncio.Event().wait()


def of_size(id: int, method: str, size: int) -> bytes:
    """A request whose frame has that many bytes."""
    bare = len(msgspec.json.encode(request(id, method, {"text": ""})))
    return msgspec.json.encode(request(id, method, {"text": "x" * (size - bare)}))


async def refused(hand: Hand) -> int:
    """The id of a request that was refused because there are too many bytes of requests."""
    answer = await hand.receive()
    assert answer["error"]["code"] == -32001
    assert "of requests are being answered" in answer["error"]["message"]
    return int(answer["id"])


async def test_requests_that_are_being_answered_have_a_limit_in_bytes_and_leave_room_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with facing_agent(Waiting) as hand:
        monkeypatch.setattr(connection, "IN_WORKS", 1000)
        hand.send(of_size(1, "_wait", 400), of_size(2, "_wait", 601))
        assert await refused(hand) == 2  # one byte too many
        hand.send(of_size(3, "_wait", 600), of_size(4, "_echo", 200))
        assert await refused(hand) == 4  # so the one before it was let in
        hand.send(cancel_request(1))
        assert (await hand.receive())["id"] == 1
        for id in (5, 6):  # what is answered gives its room back
            hand.send(of_size(id, "_echo", 400))
            assert (await hand.receive())["result"]
        hand.send(cancel_request(3))
        assert (await hand.receive())["id"] == 3
        hand.send(of_size(7, "_echo", 5000))  # alone, a request of any size is answered
        assert (await hand.receive())["result"]


async def test_a_handler_that_does_not_end_keeps_no_connection_from_ending(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ending, "PATIENCE", 0.01)
    begun, may_end = asyncio.Event(), asyncio.Event()
    handlers: list[asyncio.Task[Any]] = []

    class Stubborn(Ponging):
        @extension("_stay")
        async def stay(self, params: Any) -> Any:
            handlers.append(asyncio.current_task())  # type: ignore[arg-type]
            begun.set()
            while not may_end.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await may_end.wait()

    try:
        async with facing_agent(Stubborn) as hand:  # and waits until the connection has ended
            hand.request(1, "_stay")
            await begun.wait()
        assert "the handler of _stay does not end" in caplog.text
        assert not handlers[0].done()
    finally:
        may_end.set()
    await asyncio.wait(handlers)


async def test_a_request_that_is_cancelled_twice_cleans_up_undisturbed() -> None:
    begun, may_clean_up, cleaned_up = asyncio.Event(), asyncio.Event(), asyncio.Event()

    class Careful(Ponging):
        @extension("_careful")
        async def careful(self, params: Any) -> Any:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                await may_clean_up.wait()
                cleaned_up.set()

    async with facing_agent(Careful) as hand:
        hand.request(1, "_careful")
        await begun.wait()
        for _ in range(2):
            hand.send(cancel_request(1))
            assert await hand.ping() == []
        may_clean_up.set()
        assert (await hand.receive())["id"] == 1
    assert cleaned_up.is_set()
