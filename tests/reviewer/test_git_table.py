"""A table of states of repositories and of what must be named in each, whatever the user has set.

Every state is here with no settings, and every setting with one state; `tests/torture` has all with all.
"""

from pathlib import Path

import pytest

from .git_states import CONFIGURATIONS, STATES, State
from .git_table import compare

ONE = next(state for state in STATES if state.name == "submodule_with_a_commit")


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
async def test_a_review_names_the_files_that_it_must(state: State, tmp_path: Path) -> None:
    await compare(state, tmp_path / "site")


@pytest.mark.parametrize("configuration", [name for name in CONFIGURATIONS if name != "none"])
async def test_no_setting_of_the_user_changes_what_is_named(configuration: str, tmp_path: Path) -> None:
    await compare(ONE, tmp_path / "site", configuration)
