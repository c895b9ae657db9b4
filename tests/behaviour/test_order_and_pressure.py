"""Order is kept, nothing is lost, and whoever does not keep up holds up nobody but the one who speaks to them."""

import asyncio
import itertools
from pathlib import Path

import pytest

from dragoman import Client, Error
from dragoman import schema as s

from .cast import Flooding, Steady
from .reading import open_session, play, said, started, tell


def numbers(events):
    return [int(event.content.text.split()[0]) for event in events if isinstance(event, s.AgentMessageChunk)]


async def test_a_flood_arrives_whole_and_in_order(connect):
    async with connect(Flooding, Client()) as client:
        session = await client.new_session("/")
        assert numbers(await play(session, "5000 100")) == list(range(5000))


async def test_a_reader_who_comes_late_has_missed_nothing(connect):
    async with connect(Flooding, Client()) as client:
        session = await client.new_session("/")
        # Twice as much as is kept in memory, and another turn behind it.
        first, second = session.prompt("10000 900"), session.prompt("10 0")
        other = await client.new_session("/")
        assert numbers(await play(other, "10 0")) == list(range(10))
        assert numbers([event async for event in first]) == list(range(10000))
        assert numbers([event async for event in second]) == list(range(10))


async def test_a_slow_reader_sees_everything_in_order(connect):
    async with connect(Flooding, Client()) as client:
        session = await client.new_session("/")
        seen = []
        async for event in session.prompt("2000 500"):
            seen.append(event)
            if len(seen) % 50 == 0:
                await asyncio.sleep(0.001)
        assert numbers(seen) == list(range(2000))


async def test_a_flood_in_one_session_does_not_hold_up_another(connect):
    async with connect(client=Client()) as client:
        loud, quiet = await open_session(client), await open_session(client)
        flood = loud.prompt("flood 1000000 200")
        await started(flood, "0 ")
        for number in range(5):
            assert await tell(quiet, f"echo {number}") == str(number)
        with pytest.raises(Error):
            _ = flood.response  # it still goes on
        loud.cancel()
        assert (await flood).stop_reason == "cancelled"


async def test_a_flood_can_be_cancelled(connect):
    async with connect(client=Client()) as client:
        session = await open_session(client)
        flood = session.prompt("flood 1000000 200")
        await started(flood, "0 ")
        session.cancel()
        events = [event async for event in flood]
        assert events[-1].stop_reason == "cancelled"
        seen = numbers(events)
        assert seen == list(range(seen[0], seen[-1] + 1))
        assert seen[-1] < 999_999


async def test_all_kinds_of_updates_keep_their_order_among_each_other(connect):
    async with connect() as client:
        session = await open_session(client)
        words = "echo a\nthought b\nplan\necho c\ntitle d\necho e\nusage\nthought f"
        kinds = [type(event) for event in await play(session, words)]
        assert kinds == [
            s.AgentMessageChunk,
            s.AgentThoughtChunk,
            s.Plan,
            s.Plan,
            s.AgentMessageChunk,
            s.SessionInfoUpdate,
            s.AgentMessageChunk,
            s.UsageUpdate,
            s.AgentThoughtChunk,
            s.PromptResponse,
        ]


async def test_updates_and_requests_keep_their_order(connect):
    order = []

    class Watching(Client):
        def update(self, params):
            order.append(said([params.update]))
            super().update(params)

        async def read_text_file(self, params):
            order.append(params.path)
            return s.ReadTextFileResponse(content="")

    async with connect(client=Watching()) as client:
        session = await open_session(client)
        await session.prompt("echo 1\nread /2\necho 3\nread /4\necho 5")
        assert [word for word in order if word] == ["1", "/2", "3", "/4", "5"]


@pytest.mark.parametrize(("agent", "count", "size"), [(Flooding, 20_000, 1000), (Steady, 800, 50_000)])
async def test_a_client_that_does_not_read_slows_the_agent_down_and_loses_nothing(
    speak, transport, agent, count, size
):
    async with speak(agent) as wire:
        await wire.initialize()
        session = (await wire.request("session/new", {"cwd": "/", "mcpServers": []}))["result"]["sessionId"]
        pid = (await wire.request("_flooding/ping"))["result"]
        wire.hold()
        params = {"sessionId": session, "prompt": [{"type": "text", "text": f"{count} {size}"}]}
        turn = wire.ask("session/prompt", params)
        if transport == "stdio":
            before = peak_memory(pid)
            await until_idle(pid)
        wire.resume()
        for expected in itertools.count():
            message = await wire.receive()
            if message.get("id") == turn:
                break
            assert message["params"]["update"]["content"]["text"].startswith(f"{expected} ")
        assert expected == count
        assert message["result"] == {"stopReason": "end_turn"}
        if transport == "stdio":
            assert peak_memory(pid) - before < 10 * 1024  # kilobytes; all of it would be over 20,000


def peak_memory(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


async def until_idle(pid):
    """Until a process has used no more of the processor for a while."""
    used = None
    while (now := Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]) != used:
        used = now
        await asyncio.sleep(0.1)


async def test_lines_of_any_size_pass_whole(connect):
    async with connect(client=Client()) as client:
        session = await open_session(client)
        for size in (65_535, 65_536, 563_170, 5_000_000):
            assert len(await tell(session, f"flood 1 {size}")) == size
            words = "é" * (size // 2)
            assert await tell(session, f"echo {words}") == words
