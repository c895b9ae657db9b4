"""The process of a gateway is replaced under load, at full size; a smaller run is in tests/gateway."""

import os
import re
from pathlib import Path

import pytest
from gateway.handing_over import replaced_under_load

pytestmark = [pytest.mark.torture, pytest.mark.usefixtures("nothing_left")]

CLIENTS = int(os.environ.get("DRAGOMAN_HANDOVER_CLIENTS", "20"))  # each with ten sessions
SESSIONS = 10


async def test_two_hundred_sessions_stream_while_the_process_is_replaced_three_times(tmp_path: Path) -> None:
    found = await replaced_under_load(tmp_path, clients=CLIENTS, sessions=SESSIONS, times=3)
    print(
        f"\nhandover: {CLIENTS * SESSIONS} sessions, {found.prompts} prompts, {found.refused} connections refused"
    )
    assert found.refused == 0
    for number in range(4):
        log = (tmp_path / f"log-{number}").read_text()
        assert not re.search(r"^(ERROR|Traceback)", log, re.MULTILINE), log
