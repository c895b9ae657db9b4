"""Two people on one gateway, each trying for the other's canary and for the gateway's."""

import os
import shutil
from pathlib import Path

import pytest
from ordinary import run_as_ordinary_user

from .feud import Feud

pytestmark = [
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    pytest.mark.timeout(900),
]


@pytest.mark.usefixtures("nothing_left")
async def test_in_a_thousand_steps_nobody_finds_what_is_another_s(tmp_path: Path) -> None:
    did = await Feud(tmp_path, seed=22).run(steps=1000, restarts=2)
    assert did.total() >= 1000


@pytest.mark.usefixtures("nothing_left")
async def test_nor_in_a_hundred_and_fifty(tmp_path: Path) -> None:
    did = await Feud(tmp_path, seed=7).run(steps=150, restarts=1)
    assert did.total() >= 150


@pytest.mark.skipif(os.geteuid() != 0, reason="this is run as an ordinary user")
def test_nor_where_the_gateway_is_an_ordinary_user() -> None:
    run_as_ordinary_user(__file__, "-k", "hundred_and_fifty")
