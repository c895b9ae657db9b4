"""What holds for every test with the official SDK: it ends in ten seconds, and neither side complains unasked."""

import asyncio
import functools
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import pytest_asyncio
from dragoman_editor import Editor
from patience import PATIENCE


def pytest_itemcollected(item: pytest.Item) -> None:
    if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
        item.obj = _in_time(item.obj)


def _in_time(test: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(test)
    async def timed(*args: Any, **kwargs: Any) -> None:
        async with asyncio.timeout(PATIENCE):
            await test(*args, **kwargs)

    return timed


class Complaints:
    """Warnings and errors logged in this process, by either library."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        self._expected: set[str] = set()

    def expect(self, message: str) -> None:
        """Something one of the two cannot do without complaining."""
        assert message in self.all(), f"{message!r} was not logged; only {self.all()}"
        self._expected.add(message)

    def all(self) -> list[str]:
        records = [record for phase in ("setup", "call", "teardown") for record in self._caplog.get_records(phase)]
        return [record.getMessage() for record in records if record.levelno >= logging.WARNING]

    def unexpected(self) -> list[str]:
        return [message for message in self.all() if message not in self._expected]


@pytest.fixture(autouse=True)
def complaints(caplog: pytest.LogCaptureFixture) -> Iterator[Complaints]:
    """What was logged in this process; what a test does not expect fails it."""
    found = Complaints(caplog)
    yield found
    assert found.unexpected() == []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_agent(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Any]:
    """One SDK agent for a whole module: it takes a second to import, and one connection must stand all of it."""
    from sdk_agent_process import sdk_agent  # skips where the SDK is missing, so not before a test needs it

    async with sdk_agent(tmp_path_factory.mktemp("sdk-agent")) as agent:
        yield agent


@pytest.fixture
def agent(shared_agent: Any) -> Iterator[Any]:
    """The SDK agent, which must have had nothing to complain about in this test."""
    yield shared_agent
    assert shared_agent.complaints() == ""
    assert len(shared_agent.client.terminals) == 0


@pytest.fixture
def editor(agent: Any) -> Editor:
    """The client the SDK agent is connected to, as good as new."""
    agent.client.reset()
    return agent.client
