"""What the reviewer names in every state of a repository, under every configuration of the user."""

from pathlib import Path

import pytest
from reviewer.git_states import CONFIGURATIONS, STATES, State
from reviewer.git_table import compare, shared_reviewer

pytestmark = pytest.mark.torture


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
async def test_a_review_names_the_files_that_it_must(state: State, configuration: str, tmp_path: Path) -> None:
    async with shared_reviewer(tmp_path / "home") as reviewer:
        await compare(state, tmp_path / "site", reviewer, configuration)
