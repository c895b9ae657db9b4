"""A fork of a program has no part in the connections that the program has opened, however the fork ends."""

import subprocess
import sys
import textwrap

import pytest
from patience import PATIENCE

TESTY = [sys.executable, "-m", "dragoman", "agent", "testy"]
FORKED = "belongs to the process that this one was forked from"

ASYNCHRONOUS = """
import asyncio, os, socket, sys
from dragoman import connect, serve_on, streams
from dragoman.testing import Testy

async def over_streams():
    ours, theirs = socket.socketpair()
    serving = serve_on(Testy, streams(*await asyncio.open_connection(sock=theirs)))
    agents.append(asyncio.create_task(serving))
    return streams(*await asyncio.open_connection(sock=ours))

agents = []

async def main(reached, end):
    target = {"here": Testy, "command": sys.argv[3:], "streams": None}[reached] or await over_streams()
    async with connect(target) as client:
        session = await client.new_session("/")
        if (child := os.fork()) == 0:
            try:
                session.prompt("echo from the fork")
            except Exception as exc:
                print(exc, flush=True)
            if end == "os._exit":
                os._exit(0)
            if end == "sys.exit":
                sys.exit(0)
            return
        assert os.waitpid(child, 0)[1] == 0
        async for event in session.prompt("echo still here"):
            if content := getattr(event, "content", None):
                print(content.text)
    await asyncio.gather(*agents)

asyncio.run(main(*sys.argv[1:3]))
"""

BLOCKING = """
import os, sys
from dragoman import blocking

with blocking.connect(sys.argv[1:]) as client:
    session = client.new_session("/")
    turn = session.prompt("echo still here")
    if (child := os.fork()) == 0:
        session.cancel()
        try:
            session.prompt("echo from the fork")
        except Exception as exc:
            print(exc, flush=True)
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    print(turn.text)
"""


def ran(program: str, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", textwrap.dedent(program), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


@pytest.mark.parametrize("end", ["os._exit", "sys.exit", "return"])
@pytest.mark.parametrize("reached", ["here", "command", "streams"])
def test_a_fork_is_told_that_a_connection_is_not_its_own_and_leaves_it_alone(reached: str, end: str) -> None:
    done = ran(ASYNCHRONOUS, reached, end, *TESTY)
    told = f"this connection {FORKED}: open another one here"
    assert (done.stdout, done.stderr) == (f"{told}\nstill here\n", "")


def test_a_fork_is_told_that_a_client_without_a_loop_is_not_its_own() -> None:
    done = ran(BLOCKING, *TESTY)
    told = f"this client {FORKED}; open another with blocking.connect"
    assert (done.stdout, done.stderr) == (f"{told}\nstill here\n", "")
