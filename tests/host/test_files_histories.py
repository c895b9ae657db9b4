"""Workspace, user and agent in any order; a small share of `tests/torture/test_file_histories.py`."""

import pytest
from torture.file_histories import run_histories, save_at_every_moment
from torture.moments import WAYS


def test_no_byte_of_the_users_is_lost_without_a_yes_that_showed_it() -> None:
    run_histories(25, same=True)


@pytest.mark.parametrize("way", WAYS)
def test_a_file_saved_at_any_moment_of_a_write_is_not_lost(way: str) -> None:
    save_at_every_moment(way)
