"""The gateway's experiments at full size; smaller ones are in tests/gateway."""

import os
import resource
import shutil
from pathlib import Path

import pytest
from gateway.ageing import open_and_close, reconnect
from gateway.crowd import crowd
from gateway.feud import Feud
from gateway.house import hosting
from gateway.killing import kill_in_the_middle
from gateway.test_admission import disguised
from gateway.test_histories import live_through
from gateway.test_integrity import flip_bits

pytestmark = [pytest.mark.torture, pytest.mark.usefixtures("nothing_left")]

KILLS = int(os.environ.get("DRAGOMAN_KILLS", "10000"))
CLIENTS = int(os.environ.get("DRAGOMAN_CLIENTS", "1000"))
REQUESTS = int(os.environ.get("DRAGOMAN_REQUESTS", "100000"))
HISTORIES = int(os.environ.get("DRAGOMAN_HISTORIES", "2000"))
CYCLES = int(os.environ.get("DRAGOMAN_CYCLES", "3000"))
FLIPS = int(os.environ.get("DRAGOMAN_FLIPS", "20000"))
FEUD = int(os.environ.get("DRAGOMAN_FEUD", "20000"))
HOURS = float(os.environ.get("DRAGOMAN_HOURS", "24"))


async def test_ten_thousand_kills_of_the_gateway(tmp_path: Path) -> None:
    figures = await kill_in_the_middle(tmp_path, cycles=KILLS, seed=7)
    print(f"\nkills of the gateway: {dict(figures)}")
    assert figures["cycles"] == KILLS


async def test_a_flip_of_every_byte_of_a_log_is_never_told_as_if_it_had_been_said(tmp_path: Path) -> None:
    await flip_bits(tmp_path, FLIPS)


async def test_two_thousand_false_names_and_pages(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house:
        assert await disguised(house.server.port, seed=7, count=1000) == []


async def test_a_thousand_clients_with_the_same_ids(tmp_path: Path) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    figures = await crowd(tmp_path, clients=CLIENTS, requests=REQUESTS)
    print(f"\na crowd: {figures}")
    assert figures["crossed"] == 0


def test_two_thousand_histories_of_a_session() -> None:
    live_through(HISTORIES)


async def test_three_thousand_sessions_opened_prompted_and_closed(tmp_path: Path) -> None:
    figures = await open_and_close(tmp_path, cycles=CYCLES, kilobytes=16 * 1024)
    print(f"\n{CYCLES} sessions: {figures.descriptors} descriptors, {figures.tasks} tasks, {figures.kilobytes} KiB")


async def test_a_day_of_reconnects(tmp_path: Path) -> None:
    figures = await reconnect(tmp_path, hours=HOURS, kilobytes=16 * 1024)
    print(f"\n{HOURS:g} h: {figures.descriptors} descriptors, {figures.tasks} tasks, {figures.kilobytes} KiB")


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
async def test_in_twenty_thousand_steps_nobody_finds_what_is_another_s(tmp_path: Path) -> None:
    did = await Feud(tmp_path, seed=23).run(steps=FEUD, restarts=20)
    print(f"\ntwo people: {dict(did)}")
    assert did.total() >= FEUD
