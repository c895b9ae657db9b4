"""The real `claude` program against a server of ours, with a home of its own."""

import importlib.util
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from .anthropic_server import AnthropicServer, Conversation, running

numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if importlib.util.find_spec("claude_agent_sdk") is None:
        skip = pytest.mark.skip(reason="the extra [claude] is not installed: pip install 'dragoman[claude]'")
        here = Path(__file__).parent
        for item in items:
            if here in item.path.parents:
                item.add_marker(skip)


@pytest.fixture(scope="session")
def anthropic() -> Iterator[AnthropicServer]:
    yield from running()


@pytest.fixture
def model(anthropic: AnthropicServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Conversation:
    """The model's side of a conversation; programs started from here on ask it, and have a home of their own."""
    conversation = anthropic.conversation(f"c{next(numbers)}")
    home = tmp_path / "home"
    home.mkdir()
    for name, value in {
        "HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(home / ".claude"),
        "ANTHROPIC_BASE_URL": conversation.url,
        "ANTHROPIC_API_KEY": "sk-ant-for-tests",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "CLAUDE_CODE_MAX_RETRIES": "2",
        "IS_SANDBOX": "1",
        "TMPDIR": str(home),
        "CLAUDE_CODE_TMPDIR": str(home),
    }.items():
        monkeypatch.setenv(name, value)
    for name in (
        "CLAUDE_CODE_EXECUTABLE",
        "ANTHROPIC_MODEL",
        "ANTHROPIC_AUTH_TOKEN",
        "CLAUDECODE",
        "SSH_CONNECTION",
    ):
        monkeypatch.delenv(name, raising=False)
    return conversation


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The directory that sessions are about."""
    place = tmp_path / "work"
    place.mkdir()
    return place
