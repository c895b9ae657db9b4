"""What `connect` gives an agent, and what a prompt can be used for."""

import asyncio
import contextlib
import contextvars
import os
import subprocess
import sys

import pytest

from dragoman import Agent, connect
from dragoman.testing import Testy

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
    ended = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert (ended.stderr, ended.stdout, ended.returncode) == ("", "all\n", 0)
