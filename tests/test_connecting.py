"""What `connect` gives an agent, and what a prompt can be used for."""

import asyncio
import contextlib
import contextvars
import os
import subprocess
import sys

import pytest
from patience import PATIENCE

from dragoman import Agent, Client, LocalProtocolError, NotOffered, connect
from dragoman import schema as s
from dragoman.testing import Testy, raw_agent

pytestmark = pytest.mark.usefixtures("nothing_left")

TEST = contextvars.ContextVar("TEST", default="unset")
# An agent that says what is in its environment, and complains aloud.
SAYS_ENVIRONMENT = """
import os, sys
from dragoman import Agent, serve
class Mine(Agent):
    async def answer(self, turn):
        print("complaining", file=sys.stderr, flush=True)
        await turn.say(f"{os.environ.get('HOME')} {os.environ.get('GIVEN')}")
serve(Mine)
"""


async def said(client) -> str:
    events = [event async for event in (await client.new_session()).prompt("go")]
    return "".join(event.content.text for event in events if hasattr(event, "content"))


@pytest.mark.parametrize("inherit", [True, False])
async def test_variables_are_added_to_ours_or_stand_alone(inherit):
    given = {"GIVEN": "this"} | ({} if inherit else {"PATH": os.environ["PATH"]})
    command = [sys.executable, "-c", SAYS_ENVIRONMENT]
    async with asyncio.timeout(30), connect(command, env=given, inherit_env=inherit) as client:
        assert await said(client) == f"{os.environ.get('HOME') if inherit else None} this"


async def test_what_an_agent_writes_to_stderr_is_told_as_it_comes():
    heard, complained = [], asyncio.Event()

    def hear(data: bytes) -> None:
        heard.append(data)
        complained.set()

    async with asyncio.timeout(30), connect([sys.executable, "-c", SAYS_ENVIRONMENT], on_stderr=hear) as client:
        await said(client)
        await complained.wait()
    assert b"complaining" in b"".join(heard)


async def test_context_variables_of_the_client_are_nothing_to_an_agent_in_its_process():
    class Mine(Agent):
        async def answer(self, turn):
            await turn.say(TEST.get())

    TEST.set("the client's")
    async with asyncio.timeout(30), connect(Mine) as client:
        assert await said(client) == "unset"


async def test_an_agent_that_asks_in_a_way_nobody_offers_can_tell_by_the_error():
    class Asking(Agent):
        async def answer(self, turn):
            for ask in (
                turn.elicit("Name?", s.ElicitationSchema()),
                turn.elicit_url("Log in", "https://a.example"),
            ):
                try:
                    await ask
                except NotOffered:
                    await turn.say("asked in words instead. ")

    async with asyncio.timeout(30), connect(Asking) as client:
        assert await said(client) == "asked in words instead. " * 2


async def test_a_client_knows_the_id_of_the_permission_request_it_answers():
    ids = []

    class Knowing(Client):
        async def request_permission(self, params):
            ids.append(self.connection.request_id)
            return await super().request_permission(params)

    async with asyncio.timeout(30), raw_agent(Knowing()) as (_, wire):
        options = [{"optionId": "no", "name": "No", "kind": "reject_once"}]
        params = {"sessionId": "s", "toolCall": {"toolCallId": "c"}, "options": options}
        for id in ("a text", 7):
            wire.send({"id": id, "method": "session/request_permission", "params": params})
            assert (await wire.receive())["id"] == id
    assert ids == ["a text", 7]


async def elsewhere(work):
    """Have something done in another event loop, in a thread of its own."""

    async def run():
        async with asyncio.timeout(30):
            return await work()

    return await asyncio.to_thread(asyncio.run, run())


async def test_whatever_is_done_with_a_session_in_another_loop_is_refused():
    async with asyncio.timeout(60), connect(Testy) as client:
        session = await client.new_session()
        running = session.prompt("wait")

        async def asked():
            await session.prompt("echo hello")

        async def cancelled():
            session.cancel()

        async def awaited():
            await running

        async def iterated():
            async for _ in running:
                pass

        async def read():
            async for _ in session.updates():
                pass

        uses = [asked, cancelled, awaited, iterated, read, client.new_session, lambda: session.set_mode("plan")]
        for use in uses:
            with pytest.raises(LocalProtocolError, match="belongs to another event loop"):
                await elsewhere(use)
        session.cancel()
        assert (await running).stop_reason == "cancelled"


async def test_a_prompt_is_a_coroutine_that_a_task_can_run():
    async with asyncio.timeout(30), connect(Testy) as client:
        session = await client.new_session()
        turns = [asyncio.create_task(session.prompt(f"echo {number}")) for number in range(3)]
        assert [(await turn).stop_reason for turn in turns] == ["end_turn"] * 3


async def test_a_task_that_runs_a_prompt_cancels_the_turn_with_itself():
    async with asyncio.timeout(30), connect(Testy) as client:
        session = await client.new_session()
        turn = asyncio.create_task(session.prompt("wait"))
        await client.agent.request("_testy/ping")
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert (await session.prompt("echo next")).stop_reason == "end_turn"


async def test_a_reader_that_leaves_early_closes_the_turn():
    async with asyncio.timeout(30), connect(Testy) as client:
        session = await client.new_session()
        async with contextlib.aclosing(session.prompt("wait")) as turn:
            await anext(turn)
        assert turn.response.stop_reason == "cancelled"
        assert (await session.prompt("echo next")).stop_reason == "end_turn"


# Each way to leave a connection half-way without leaving its block; an agent's process must not outlive the loop.
ABANDONED = """
import asyncio, gc, os, sys
from dragoman import connect
from dragoman.testing import Testy

targets = [Testy, [sys.executable, "-m", "dragoman", "agent", "testy"]]

async def entered_and_dropped(target):
    block = connect(target)
    await (await block.__aenter__()).new_session()

async def dropped_while_it_opens(target):
    opening = connect(target).__aenter__()
    opening.send(None)

async def sessions(target):
    async with connect(target) as client:
        yield await client.new_session()

async def generator_left_early(target):
    async for session in sessions(target):
        break

async def generator_kept(target):
    kept.append(sessions(target))
    await anext(kept[-1])

async def task_left_running(target):
    entered = asyncio.Event()
    async def stay():
        async with connect(target):
            entered.set()
            await asyncio.Event().wait()
    kept.append(asyncio.create_task(stay()))
    await entered.wait()

async def never_entered(target):
    connect(target)

kept = []
ways = [
    entered_and_dropped, dropped_while_it_opens, never_entered,
    generator_left_early, generator_kept, task_left_running,
]

async def main(way, target):
    asyncio.get_running_loop().slow_callback_duration = 3600  # the machine may be busy, and -X dev tells of it
    async with asyncio.timeout(30):
        await way(target)
    gc.collect()

for target in targets:
    for way in ways:
        asyncio.run(main(way, target))
        gc.collect()
        try:
            print(way.__name__, "left", os.waitpid(-1, os.WNOHANG))
        except ChildProcessError:
            pass
print("all")
"""


def test_a_connection_that_is_abandoned_half_way_is_closed_without_a_word():
    command = [sys.executable, "-X", "dev", "-c", ABANDONED]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (ended.stderr, ended.stdout, ended.returncode) == ("", "all\n", 0)
