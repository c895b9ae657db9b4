"""What every test relies on: torture runs only where asked for, and nothing a test started outlives it."""

import asyncio
import contextlib
import gc
import os
from collections.abc import AsyncIterator, Generator, Iterator

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "torture" in config.option.markexpr:
        return
    full_size = [item for item in items if item.get_closest_marker("torture")]
    if full_size:
        config.hook.pytest_deselected(items=full_size)
        items[:] = [item for item in items if not item.get_closest_marker("torture")]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tests that run side by side report over a wire that takes no half characters, and some tests log such."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


@pytest.fixture(autouse=True, scope="session")
def own_directories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Sessions, logs and settings of whoever runs the tests are neither read nor written by them."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
            patch.setenv(name, str(tmp_path_factory.mktemp(name.lower())))
        yield


@pytest.fixture
async def nothing_left() -> AsyncIterator[None]:
    """Fails the test that leaves a task, a descriptor or a child behind, or an exception nobody saw."""
    unseen: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
    before = descriptors()
    gc.freeze()  # only what the test itself makes has to be looked through
    yield
    gc.collect()
    gc.unfreeze()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    assert not unseen, unseen
    assert not tasks, tasks
    assert descriptors() == before
    assert not children()


def descriptors() -> set[tuple[int, str]]:
    """This process's open descriptors and what they are."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add((int(name), os.readlink(f"/proc/self/fd/{name}")))
        except FileNotFoundError:  # the one that read the directory
            continue
    return found


def children() -> str:
    """The ids of this process's children, also of those nobody has waited for."""
    found = ""
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/self/task/{thread}/children") as file:
            found += file.read()  # unless the thread has just ended
    return found
