"""A table of states of repositories and of what must be named in each, whatever the user has set.

Every state is here with no settings, and every setting with one state; `tests/torture` has all with all.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from .git_states import CONFIGURATIONS, STATES, State
from .git_table import SharedReviewer, compare, shared_reviewer

pytestmark = pytest.mark.asyncio(loop_scope="module")
ONE = next(state for state in STATES if state.name == "submodule_with_a_commit")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SharedReviewer]:
    async with shared_reviewer(tmp_path_factory.mktemp("shared") / "site") as reviewer:
        yield reviewer


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
async def test_a_review_names_the_files_that_it_must(state: State, shared: SharedReviewer, tmp_path: Path) -> None:
    await compare(state, tmp_path / "site", shared)


@pytest.mark.parametrize("configuration", [name for name in CONFIGURATIONS if name != "none"])
async def test_no_setting_of_the_user_changes_what_is_named(
    configuration: str, shared: SharedReviewer, tmp_path: Path
) -> None:
    await compare(ONE, tmp_path / "site", shared, configuration)
