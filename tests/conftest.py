"""What every test relies on: torture runs only where asked for, and nothing a test started outlives it."""

import asyncio
import contextlib
import gc
import os
import signal
from collections.abc import AsyncIterator, Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings
from leftovers import children, descriptors

# How long an example takes says something about the machine, not about what is tested.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def pytest_configure() -> None:
    """Tests interrupt programs, also where the suite itself was started in the background, or by nohup."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


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


@pytest.fixture(autouse=True)
def only_its_own_objects_are_collected() -> None:
    """What the test before left to the collector is collected, and what stays is not looked through again.

    So a test that collects garbage looks through its own objects, and no garbage grows from test to test.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_process_left() -> Iterator[None]:
    """Fails the test that leaves a child behind, and ends that child, so that no later test is charged for it."""
    before = children()
    yield
    left = children() - before
    for pid in left:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    assert not left


@pytest.fixture
async def nothing_left() -> AsyncIterator[None]:
    """Fails the test that leaves a task or a descriptor behind, or an exception nobody saw."""
    unseen: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
    before = descriptors()
    yield
    gc.collect()
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    assert not unseen, unseen
    assert not tasks, tasks
    assert descriptors() == before
