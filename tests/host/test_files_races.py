"""Attackers who swap names while they are looked at; a small share of `tests/torture/test_host_files.py`."""

import sys
from pathlib import Path

import pytest
from torture.host_files import ATTACKS, check_then_open_under_attack, read_under_attack, write_under_attack

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the attacker needs renameat2")


@pytest.mark.parametrize("use_openat2", [True, False], ids=["openat2", "walk"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_secret_is_read_while_names_are_swapped(tmp_path: Path, attack: str, use_openat2: bool) -> None:
    counts = read_under_attack(tmp_path, 750, use_openat2=use_openat2, moves=ATTACKS[attack])
    assert counts["leaked"] == 0
    assert counts["read"] > 0, "what is inside can be read in between"
    assert counts["refused"] > 0, "the attacker was there"


@pytest.mark.parametrize("use_openat2", [True, False], ids=["openat2", "walk"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_outside_is_written_while_names_are_swapped(tmp_path: Path, attack: str, use_openat2: bool) -> None:
    counts = write_under_attack(tmp_path, 100, use_openat2=use_openat2, moves=ATTACKS[attack])
    assert counts["leaked"] == 0
    assert counts["written"] > 0


def test_the_attacker_does_get_at_secrets_where_paths_are_checked_before_they_are_opened(tmp_path: Path) -> None:
    assert check_then_open_under_attack(tmp_path, 20_000, enough=1) > 0
