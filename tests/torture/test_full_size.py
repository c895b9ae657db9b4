"""The experiments as large as they were meant: `make torture` runs them and prints their figures.

The seed of a run is the number in its name; each prints what it measured, for docs/concepts/robustness.md.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import seed
from hypothesis.stateful import run_state_machine_as_test

from .by_hand import facing_agent, facing_client, note, peak, request
from .cancels import Busy, Yielding, cancel_anyhow, cancel_everywhere
from .channel import Channel, Lifecycle, run_settings
from .crashes import kill_at_offsets
from .ends import half_close
from .floods import both_at_once, cancel_in_flood, unread
from .fuzz import fuzz
from .lines import carry
from .mangling import mangle
from .nesting import nest
from .noise import babble
from .readings import compare
from .writers import crowd

pytestmark = [pytest.mark.torture, pytest.mark.usefixtures("nothing_left")]

MIB = 1024 * 1024


def report(experiment: str, figures: object) -> None:
    print(f"\n{experiment}: {figures}")


@pytest.mark.parametrize(
    ("role", "wire", "count"),
    [
        ("agent", "memory", 400_000),
        ("client", "memory", 400_000),
        ("agent", "stdio", 100_000),
        ("client", "stdio", 100_000),
    ],
)
async def test_01_a_million_frames_nobody_should_send(role: str, wire: str, count: int) -> None:
    figures = await fuzz(role, wire, count=count, seed=1)
    report(f"T01 {role} over {wire}", figures)
    assert figures["frames"] == count
    assert figures["grown"] < 20 * MIB


def test_02_depth_up_to_what_fits_into_a_frame_in_every_field() -> None:
    figures = nest([1000, 10_001, 100_000, 1_000_001])
    report("T02", figures)
    deepest = nest([7_000_000], forms=("arrays",))  # as deep as fits into a frame
    report("T02 as deep as a frame", deepest)
    assert figures["slowest"] < 0.05
    assert deepest["slowest"] < 0.05


def test_02_depth_on_a_short_stack() -> None:
    command = [sys.executable, "-m", "torture.nesting", "1000", "100001", "1000000"]
    assert subprocess.run(command, cwd=Path(__file__).parent.parent, check=False).returncode == 0


ECHO = """
from dragoman import Agent, extension, serve
class Echo(Agent):
    @extension("_echo")
    async def echo(self, params):
        return params
serve(Echo)
"""


def test_03_a_gigabyte_without_a_newline() -> None:
    with subprocess.Popen([sys.executable, "-c", ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as agent:
        assert agent.stdin
        assert agent.stdout
        agent.stdin.write(json.dumps(request(1, "initialize", {"protocolVersion": 1})).encode() + b"\n")
        agent.stdin.flush()
        assert json.loads(agent.stdout.readline())["id"] == 1
        agent.stdin.write(b'{"jsonrpc":"2.0","id":"endless","method":"_echo","params":{"text":"')
        for _ in range(1024):
            agent.stdin.write(b"x" * MIB)
        agent.stdin.write(b'"}}\n')
        agent.stdin.flush()
        refusal = json.loads(agent.stdout.readline())
        assert (refusal["id"], refusal["error"]["code"]) == ("endless", -32600)
        report("T03 peak memory in MiB", peak(agent.pid) / MIB)
        assert peak(agent.pid) < 25 * MIB + 48 * MIB
        agent.stdin.write(json.dumps(request(2, "_echo", {"alive": True})).encode() + b"\n")
        agent.stdin.flush()
        assert json.loads(agent.stdout.readline())["result"] == {"alive": True}
        agent.stdin.close()


def test_04_a_hundred_thousand_payloads_one_line_each() -> None:
    carry(100_000, number=4)


def test_05_a_million_spellings_mean_what_a_plain_reader_says() -> None:
    report("T05", compare(5, 1_000_000))


def test_05_a_million_mangled_messages_have_one_outcome_each() -> None:
    report("T05 mangled", mangle(5, 1_000_000))


async def test_07_ten_thousand_lines_of_noise() -> None:
    figures = await babble(10_000, 1000, seed=7)
    report("T07", figures)
    assert figures == {"answered": 500, "delivered": 500, "spoken": 0}


STRAY = """
import ctypes, os, subprocess, sys
from dragoman import Agent, extension, serve
libc = ctypes.CDLL(None)
class Stray(Agent):
    @extension("_echo")
    async def echo(self, params):
        print("STRAY")
        os.write(1, b"STRAY")
        libc.puts(b"STRAY")
        if params["n"] % 100 == 0:
            subprocess.run(["echo", "STRAY"])
        return params
serve(Stray)
"""


async def test_08_ten_thousand_frames_of_a_program_that_prints() -> None:
    agent = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        STRAY,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert agent.stdin
    assert agent.stdout
    agent.stdin.write(json.dumps(request("first", "initialize", {"protocolVersion": 1})).encode() + b"\n")
    await agent.stdout.readline()
    for n in range(10_000):
        agent.stdin.write(json.dumps(request(n, "_echo", {"n": n})).encode() + b"\n")
        assert json.loads(await agent.stdout.readline()) == {"jsonrpc": "2.0", "id": n, "result": {"n": n}}
    agent.stdin.close()
    assert await agent.stdout.read() == b""
    assert await agent.wait() == 0


async def test_09_two_hundred_senders_on_one_narrow_pipe() -> None:
    figures = await crowd(200, 500, 2 * MIB, seed=9)
    report("T09", figures)
    assert figures == {"intact": 100_000, "torn": 0, "disordered": 0}


@pytest.mark.parametrize("number", range(50))
def test_10_a_channel_that_loses_and_reorders(number: int) -> None:
    run_state_machine_as_test(seed(number)(Channel), settings=run_settings(200, 20))  # some 100,000 moves


async def test_11_five_hundred_agents_killed_anywhere() -> None:
    figures = await kill_at_offsets(500, seed=11)
    report("T11", figures)
    assert figures["slowest"] < 1


@pytest.mark.parametrize("role", ["agent", "client"])
async def test_12_a_thousand_names_nobody_knows(role: str) -> None:
    dice = random.Random(12)
    names = ["".join(chr(dice.randrange(32, 0xD800)) for _ in range(dice.randint(0, 40))) for _ in range(1000)]

    async def try_all(hand: Any) -> None:
        for number, name in enumerate(names):
            hand.send(note(name, {}), request(number, name, {}))
            answer = await hand.receive()
            assert (answer["id"], answer["error"]["code"]) == (number, -32601)
        assert await hand.ping() == []

    if role == "agent":
        async with facing_agent() as hand:
            await try_all(hand)
    else:
        async with facing_client() as (_, hand):
            await try_all(hand)


@pytest.mark.parametrize("agent", [Busy, Yielding])
async def test_13_six_thousand_turns_cancelled_anyhow(agent: Any) -> None:
    everywhere = await cancel_everywhere(agent, steps=100)
    anyhow = await cancel_anyhow(agent, 2500, seed=13)
    report(f"T13 {agent.__name__}", everywhere["turns"] + anyhow["turns"])


async def test_14_ten_thousand_batches() -> None:
    dice = random.Random(14)
    members = [request(1, "_ping"), note("_ping"), {"jsonrpc": "2.0", "id": 1, "result": {}}, 5, None, "x", [], {}]
    async with facing_agent() as hand:
        for _ in range(10_000):
            batch = dice.choices(members, k=dice.randint(0, 6))
            hand.send(json.dumps(batch).encode())
            refusals = [(refusal["id"], refusal["error"]["code"]) for refusal in await hand.ping()]
            named = batch.count(members[0])
            assert refusals == ([(1, -32600)] * named or ([] if members[2] in batch else [(None, -32600)]))


async def test_15_a_million_updates_nobody_reads_for_a_minute() -> None:
    figures = await unread(1_000_000, pause=60)
    report("T15", figures)
    assert (figures["read"], figures["out of order"]) == (1_000_000, 0)
    assert figures["memory"] < 64 * MIB


async def test_15_ten_thousand_requests_each_way_at_once() -> None:
    figures = await both_at_once(10_000)
    report("T15 both ways", figures)
    assert figures["answered"] == 20_000
    assert figures["seconds"] < 60


async def test_16_a_flood_holds_up_nobody() -> None:
    figures = await cancel_in_flood(1_000_000, times=200)
    report("T16", figures)
    assert figures["cut short"] == 200
    assert figures["cancel p99"] < 0.25
    assert figures["prompt p99"] < 0.25


def test_18_twenty_thousand_steps_of_a_life() -> None:
    run_state_machine_as_test(seed(18)(Lifecycle), settings=run_settings(400, 50))


async def test_19_a_thousand_half_closed_wires() -> None:
    before = len(os.listdir("/proc/self/fd"))
    figures = await half_close(1000, seed=19)
    report("T19", figures)
    assert figures["slowest"] < 2
    assert len(os.listdir("/proc/self/fd")) == before
