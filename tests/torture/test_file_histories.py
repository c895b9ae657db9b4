"""Workspace, user and agent in any order, at full size: `make torture`."""

import pytest

from .file_histories import run_histories

pytestmark = pytest.mark.torture


@pytest.mark.timeout(3600)
def test_no_byte_of_the_users_is_lost_in_2_000_histories() -> None:
    run_histories(2000)
