"""What every test relies on: torture runs only where asked for, and nothing a test started outlives it."""

import asyncio
import contextlib
import gc
import logging
import os
import pwd
import random
import re
import signal
from collections.abc import AsyncIterator, Generator, Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from leftovers import children, descriptors

REAL_HOME = Path.home()
BASES = {
    "XDG_STATE_HOME": ".local/state",
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_CACHE_HOME": ".cache",
}
INSTALLED = (".rustup", ".pyenv")  # programs that find themselves below the home directory
NUMBERS = count()
# Where a complete machine may still lack something; any other skip means that something was not set up.
MAY_BE_SKIPPED = re.compile(
    "|".join(
        (
            "only root",
            "root looks into everything",
            "root may not mount here",
            "only Linux",
            "elsewhere nobody adopts",
            "needs renameat2",
            "no Landlock",
            "Landlock has no scopes",
            "no assembler for",
            "programs for .* cannot be run here",
            "no control group of version 2",
            "no IPv6 address of the local link",
            "strace cannot trace here",
            "cannot be run by an ordinary user",
            "no Python that a user can run",
            "no interpreter that anybody can run",
            "the official schema is not next to the project",
            "the documents are not at hand",
            "cargo does not work",
        )
    )
)

# How long an example takes says something about the machine, not about what is tested.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    told = "fail when a test is skipped that could be run, or the home directory changed"
    parser.addoption("--strict-skips", action="store_true", help=told)
    parser.addoption("--shuffle", metavar="SEED", help="run the tests in an order of its own for each seed")


def pytest_configure(config: pytest.Config) -> None:
    """Tests interrupt programs, also where the suite itself was started in the background, or by nohup."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    if is_in_charge(config):
        config.stash[BEFORE] = kept_at_home()


def is_in_charge(config: pytest.Config) -> bool:
    """Whether this process is not one of several that another one has started to run tests."""
    return not hasattr(config, "workerinput")


BEFORE = pytest.StashKey[set[str]]()


def kept_at_home() -> set[str]:
    """What we would leave in the real home: the names in it and in its bases, and all that is ours with its time.

    Where the suite was given another home, nobody else's files are in it.
    """
    if Path(pwd.getpwuid(os.getuid()).pw_dir) != REAL_HOME:
        return set()
    ours = [path for base in BASES.values() for path in (REAL_HOME / base / "dragoman").rglob("*")]
    top = [path for place in ("", *BASES.values()) for path in (REAL_HOME / place).glob("*")]
    return {*map(str, top), *(f"{path} {path.lstat().st_mtime_ns}" for path in ours)}


def pytest_sessionfinish(session: pytest.Session) -> None:
    """If wanted, the suite fails where it changed the real home, or skipped what it could have run."""
    if not is_in_charge(session.config):
        return
    reporter = session.config.pluginmanager.getplugin("terminalreporter")
    if not session.config.getoption("--strict-skips"):
        return
    complaints = [f"in the real home: {name}" for name in sorted(kept_at_home() - session.config.stash[BEFORE])]
    if reporter:
        reasons = {str(report.longrepr[2]) for report in reporter.stats.get("skipped", ())}
        complaints += [f"skipped without need: {why}" for why in sorted(reasons) if not MAY_BE_SKIPPED.search(why)]
    for complaint in complaints:
        print(f"\n{complaint}")
    if complaints:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if seed := config.getoption("--shuffle"):
        dice = random.Random(seed)
        places = {path: dice.random() for path in sorted({item.path for item in items})}
        items.sort(key=lambda item: (places[item.path], dice.random()))  # modules stay together: they share servers
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
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the home directories of tests are; what lives longer than one test has the first of them."""
    place = tmp_path_factory.mktemp("homes")
    with pytest.MonkeyPatch.context() as patch:
        give_home(patch, place / "shared")
        yield place


@pytest.fixture(autouse=True)
def own_home(homes: Path) -> Iterator[None]:
    """Sessions, logs and settings of whoever runs the tests, and those of other tests, are out of reach."""
    with pytest.MonkeyPatch.context() as patch:
        give_home(patch, homes / str(next(NUMBERS)))
        yield


def give_home(patch: pytest.MonkeyPatch, home: Path) -> None:
    """Programs that are started with few variables have HOME alone, so it leads to the same place."""
    home.mkdir(mode=0o700)
    patch.setenv("HOME", str(home))
    for name in INSTALLED:
        if (REAL_HOME / name).is_dir():
            (home / name).symlink_to(REAL_HOME / name)
    for variable, name in BASES.items():
        patch.setenv(variable, str(home / name))


@pytest.fixture(autouse=True)
def own_log() -> Iterator[None]:
    """A command that a test runs in this process sets up logging to a stream that is closed after the test."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


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
