"""Permissions, display and audit at full size."""

import pytest

from dragoman.host.permissions import Rules

from .host_audit import kills, share, tamper
from .host_display import show_all
from .host_faults import faults
from .host_permissions import (
    Permissions,
    Screen,
    allowed_among,
    approve_then_try,
    cases,
    disagreements,
    flood,
    misleading,
    permits,
    spoof,
    trick_rules,
    try_protected,
)
from .shell_tricks import BENIGN, TRICKS

pytestmark = pytest.mark.torture


async def test_ten_thousand_spoofed_requests_are_ten_thousand_questions():
    assert await spoof(10_000) == (10_000, 0)


async def test_every_combination_of_rules_comes_out_as_it_must(tmp_path):
    every = cases()
    assert len(every) > 30_000
    assert await disagreements(tmp_path, every) == []


async def test_every_trick_is_asked_about_and_every_command_of_a_rule_allowed(tmp_path):
    rules = trick_rules(tmp_path)
    assert await allowed_among(TRICKS, rules) == []
    assert await allowed_among(BENIGN, rules) == list(BENIGN)


@pytest.mark.parametrize("scope", ["session", "workspace", "always"])
async def test_neighbours_of_what_was_approved_are_asked_about(tmp_path, scope):
    tried, asked, again = await approve_then_try(tmp_path, scope)
    assert (asked, again) == (tried, 0)


async def test_a_hundred_rounds_of_faults_allow_nothing(tmp_path):
    for number in range(100):
        (tmp_path / str(number)).mkdir()
        assert (await faults(tmp_path / str(number)))[1] == []


async def test_protected_paths_in_every_form_and_preset(tmp_path):
    assert (await try_protected(tmp_path, Rules()))[2] == 0


async def test_a_flood_of_a_hundred_thousand_questions():
    assert await flood(100_000) == (1, 33, 99_967, 0)


async def test_ten_thousand_misleading_requests():
    for params in misleading(10_000):
        screen = Screen("agent_1")
        assert not permits(await Permissions("allow-all", asker=screen).answer(params), params)
        assert screen.seen == []


def test_a_hundred_thousand_strings_are_shown_as_they_are():
    assert show_all(100_000) == 100_000


def test_twenty_thousand_tamperings_are_found(tmp_path):
    assert tamper(tmp_path, 20_000) == []


def test_five_hundred_killed_writers_lose_nothing(tmp_path):
    acknowledged, lost, problems = kills(tmp_path, 500)
    assert acknowledged > 500
    assert (lost, problems) == (0, [])


def test_eight_writers_share_a_log(tmp_path):
    assert share(tmp_path, 8, 500) == (4001, [])
