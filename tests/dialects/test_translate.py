"""`dragoman translate` between real processes, and dialects given on the command line."""

import asyncio
import json
import subprocess
import sys

import pytest

from dragoman import connect
from dragoman.testing import RecordingClient

DRAGOMAN = [sys.executable, "-m", "dragoman"]
LIMIT = 20  # seconds


def translating(*options, agent=("agent", "testy")):
    return [*DRAGOMAN, "translate", *options, "--", *DRAGOMAN, *agent]


@pytest.mark.parametrize(
    ("client", "agent"), [("draft", "v1"), ("pharo", "draft"), ("v1", "pharo"), ("v2", "jetbrains")]
)
async def test_a_command_stands_between_any_two(client, agent):
    target = translating("--from", client, "--to", agent, agent=("agent", "testy", "--dialect", agent))
    async with asyncio.timeout(LIMIT), connect(target, RecordingClient(), dialect=client) as connected:
        session = await connected.new_session("/")
        said = [u.content.text async for u in session.prompt("hello") if getattr(u, "content", None)]
        assert "".join(said) == "hello"
        assert session.dialect == client


async def test_both_dialects_are_told_by_the_greetings():
    target = translating(agent=("agent", "testy", "--dialect", "draft"))
    async with asyncio.timeout(LIMIT), connect(target, RecordingClient(), dialect="pharo") as client:
        session = await client.new_session("/")
        assert (await session.prompt("hello")).stop_reason == "end_turn"


def test_what_was_lost_is_reported_at_the_end():
    greeting = {"protocolVersion": 1, "capabilities": {}, "clientInfo": {"name": "e", "version": "1"}}
    with subprocess.Popen(
        translating("--report"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdin.write(
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": greeting}) + "\n"
        )
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        _, stderr = process.communicate(timeout=LIMIT)
    assert answer["result"]["capabilities"]["loadSession"] is True
    assert process.returncode == 0
    assert "not translated for the client (draft), 1 times: the ways to log in\n" in stderr


def test_an_agent_that_fails_is_one_line():
    command = [*DRAGOMAN, "translate", "--", sys.executable, "-c", "raise SystemExit(3)"]
    done = subprocess.run(command, stdin=subprocess.PIPE, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode in (0, 5)  # 0: nobody was there to be told
    missing = subprocess.run(
        [*DRAGOMAN, "translate", "--", "/no/such/agent"], input="", capture_output=True, text=True, timeout=LIMIT
    )
    assert missing.returncode == 5
    assert missing.stderr == "dragoman: cannot start '/no/such/agent': no such file or directory: /no/such/agent\n"


@pytest.mark.parametrize("command", [["translate", "--from", "x", "--", "y"], ["agent", "echo", "--dialect", "x"]])
def test_a_dialect_that_is_none_is_one_line(command):
    done = subprocess.run([*DRAGOMAN, *command], input="", capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 64
    assert "there is no dialect 'x'; choose one of v1" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_run_speaks_the_dialect_it_is_told():
    agent = f"{sys.executable} -m dragoman agent echo --dialect jetbrains"
    command = [*DRAGOMAN, "run", "--agent", agent, "--dialect", "d4", "hello there"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT)
    assert (done.returncode, done.stdout) == (0, "hello there\n")
