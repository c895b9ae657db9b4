"""T61 to T71 at full size: `make torture`."""

import asyncio
import io
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from store.test_fidelity import recite, turns

from dragoman import connect
from dragoman.store import Store, durable
from dragoman.store.database.database import Database
from dragoman.store.exchange.exchange import exported, imported

from .store_damage import Chronicler, damage_stores
from .store_faults import SCENARIOS, Site, suffer_all, works
from .store_flips import flip_bytes
from .store_kills import check_integrity, kill_agents
from .store_power import fail_power
from .workers import share_out

pytestmark = pytest.mark.torture

KILLS = int(os.environ.get("STORE_KILLS", "10000"))
DAMAGES = int(os.environ.get("STORE_DAMAGES", "5000"))
FLIPS = int(os.environ.get("STORE_FLIPS", "100000"))  # more than there are bytes
FAULTS = int(os.environ.get("STORE_FAULTS", "10000"))  # at most so many of a scenario; there are fewer
POWER_FAILURES = int(os.environ.get("STORE_POWER_FAILURES", "20000"))
APPENDS = int(os.environ.get("STORE_APPENDS", "10000"))  # of each process
CONVERSATIONS = int(os.environ.get("STORE_CONVERSATIONS", "500"))
UPDATES = int(os.environ.get("STORE_UPDATES", "1000000"))
BENCH = Path(__file__).parent.parent.parent / "bench" / "store.py"


def test_10_000_killed_agents_lose_repeat_and_reorder_nothing() -> None:
    counts = share_out(kill_agents, KILLS, 6100)
    print(dict(counts))
    assert counts["killed in a turn"] > KILLS // 2


def test_1_000_killed_agents_lose_nothing_where_power_may_fail_either() -> None:
    print(dict(share_out(kill_agents, KILLS // 10, 6101, level="power")))


def test_5_000_damaged_stores_are_never_blank_and_never_silent() -> None:
    counts = share_out(damage_stores, DAMAGES, 6300)
    print(dict(counts))
    assert counts["whole"] > DAMAGES


def test_a_flip_of_every_byte_locks_nobody_out_and_takes_one_session_at_most() -> None:
    counts = flip_bytes(FLIPS, 0)
    print(dict(counts))
    assert counts["whole"] > 2 * counts["verified"]


@pytest.mark.skipif(not works(), reason="strace cannot trace here")
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_each_call_of_the_disk_fails_or_is_the_last_and_nothing_shown_is_lost(
    scenario: str, tmp_path: Path
) -> None:
    site = await Site(tmp_path).prepared()
    faults = await site.faults(scenario)
    counts = await suffer_all(random.Random(6800).sample(faults, min(FAULTS, len(faults))), site)
    print(scenario, f"{len(faults)} faults", dict(counts))


@pytest.mark.skipif(not works(), reason="strace cannot trace here")
def test_20_000_power_failures_take_nothing_that_was_shown() -> None:
    print(dict(share_out(fail_power, POWER_FAILURES, 6200)))


WRITER = """
import sys
from pathlib import Path
from dragoman.store.database.database import Database
from dragoman.store.lines import Opened
db = Database(Path(sys.argv[1]))
db.create(sys.argv[2], Opened(agent="x", cwd="/"), 1)
for number in range(int(sys.argv[3])):
    with db.transaction():
        db.append([(sys.argv[2], b'{"number":%d}' % number)])
db.close()
"""


def test_8_processes_append_10_000_times_each_and_lose_nothing(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", WRITER, str(tmp_path / "store")]
    processes = [subprocess.Popen([*argv, f"sess_{name}", str(APPENDS)]) for name in range(8)]
    assert [process.wait() for process in processes] == [0] * 8
    check_integrity(tmp_path / "store")
    db = Database(tmp_path / "store")
    for name in range(8):
        lines = [line for part in db.lines(f"sess_{name}", APPENDS + 1) for line in part]  # type: ignore[union-attr]
        assert lines[1:] == [b'{"number":%d}' % number for number in range(APPENDS)]
    db.close()


async def test_500_sessions_are_the_same_after_export_and_import(tmp_path: Path) -> None:
    async with connect(durable(Chronicler, Store(tmp_path / "one"))) as client:
        for number in range(500):
            await (await client.new_session("/")).prompt(f"{number} {number % 50} {number * 7 % 999}")
    one, other = Database(tmp_path / "one"), Database(tmp_path / "other")
    ids = [summary.id for summary in one.summaries()]
    for id in ids:
        assert imported(other, io.BytesIO(b"\n".join(exported(one, id)))) == id
        last = one.summary(id).head.last
        assert other.summary(id).head.last == last
        assert sum(map(len, other.lines(id, last))) == last
        assert [*exported(other, id)] == [*exported(one, id)]
    assert len(ids) == 500
    one.close()
    other.close()


@settings(max_examples=CONVERSATIONS, deadline=None, suppress_health_check=list(HealthCheck))
@given(turns)
def test_500_conversations_of_any_updates_fold_to_what_was_seen(script: list[list[Any]]) -> None:
    asyncio.run(recite(script))


def test_a_session_of_a_million_updates_is_listed_and_loaded_in_no_time_and_little_memory() -> None:
    figures, smaller = _figures(UPDATES), _figures(UPDATES // 10)
    assert figures["list, ms"] < 100
    assert figures["load, updates/s"] > 20_000
    assert figures["agent's memory at most, MiB"] < 64
    assert (
        smaller["load, updates/s"] / figures["load, updates/s"] < 1.2
    )  # ten times the work, at most twelve the time


def _figures(updates: int) -> dict[str, float]:
    argv = [sys.executable, str(BENCH), "--quick", "--updates", str(updates)]
    out = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    print(out)
    lines = [line.rsplit(": ", 1) for line in out.splitlines() if ": " in line and "|" not in line]
    return {name: float(figure.replace(",", "")) for name, figure in lines}
