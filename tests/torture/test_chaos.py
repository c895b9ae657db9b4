"""An hour in which everything around a gateway goes wrong, and the people who work with it notice little."""

import os
import resource
import shutil
from pathlib import Path

import pytest

from .chaos import DESCRIPTORS, PEOPLE, live_through_chaos

pytestmark = [pytest.mark.torture, pytest.mark.usefixtures("nothing_left")]

MINUTES = float(os.environ.get("DRAGOMAN_CHAOS_MINUTES", "60"))
LATENCY = float(os.environ.get("DRAGOMAN_CHAOS_LATENCY", "10"))  # seconds of a prompt, whatever others do
MEBIBYTES = int(os.environ.get("DRAGOMAN_CHAOS_MIB", "400"))  # of the gateway's memory
LOG_A_MINUTE = 256 * 1024  # bytes of the gateway's log
SEED = int(os.environ.get("DRAGOMAN_CHAOS_SEED", "23"))


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a disk that is full")
async def test_an_hour_of_chaos_is_noticed_by_nobody_beyond_a_stated_latency(tmp_path: Path) -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    chaos = await live_through_chaos(tmp_path, MINUTES, SEED)
    log = chaos.log.stat().st_size
    print(f"\nchaos: {MINUTES:g} min, {PEOPLE} people, {dict(sorted(chaos.done.items()))}")
    print(f"beside troubles of the machine: {chaos.slowest(in_trouble=False)}")
    print(f"in troubles of the machine: {chaos.slowest(in_trouble=True)}")
    used = f"{chaos.most_kilobytes // 1024} MiB, {chaos.most_descriptors} descriptors"
    print(f"the gateway: {used}, {log / 1024 / MINUTES:.0f} KiB of log a minute")
    assert chaos.wrong == []
    assert chaos.noticed(LATENCY) == []
    assert {prompt.who for prompt in chaos.worked} == {f"ann{number}" for number in range(PEOPLE)}
    assert chaos.most_kilobytes <= MEBIBYTES * 1024
    assert chaos.most_descriptors <= DESCRIPTORS
    assert log <= LOG_A_MINUTE * (MINUTES + 1)
