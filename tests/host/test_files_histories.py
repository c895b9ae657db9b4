"""Workspace, user and agent in any order; a small share of `tests/torture/test_file_histories.py`."""

from torture.file_histories import run_histories


def test_no_byte_of_the_users_is_lost_without_a_yes_that_showed_it() -> None:
    run_histories(25, same=True)
