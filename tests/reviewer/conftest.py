"""A reviewer in its own process, driven by an editor of ours."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman import Client, connect
from dragoman import schema as s

REVIEWER = [sys.executable, "-W", "error", "-m", "dragoman", "agent", "reviewer"]


@pytest.fixture(autouse=True)
def state_of_its_own(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions and journals go where nobody else looks."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


class User(Client):
    """Somebody who answers questions, and lends no files."""

    def __init__(self, *choices: str) -> None:
        super().__init__()
        self.choices = choices  # the options chosen, one after the other; the last again and again
        self.questions: list[s.RequestPermissionRequest] = []

    async def request_permission(self, params: s.RequestPermissionRequest) -> s.RequestPermissionResponse:
        self.questions.append(params)
        choice = self.choices[min(len(self.questions), len(self.choices)) - 1]
        return s.RequestPermissionResponse(outcome=s.SelectedPermissionOutcome(option_id=choice))


class Editor(User):
    """Somebody whose editor lends its files, some of them not saved."""

    def __init__(self, *choices: str) -> None:
        super().__init__(*choices)
        self.buffers: dict[str, str] = {}
        self.read: list[str] = []
        self.written: dict[str, str] = {}

    async def read_text_file(self, params: s.ReadTextFileRequest) -> s.ReadTextFileResponse:
        self.read.append(params.path)
        return s.ReadTextFileResponse(content=self.buffers.get(params.path) or Path(params.path).read_text())

    async def write_text_file(self, params: s.WriteTextFileRequest) -> s.WriteTextFileResponse:
        self.written[params.path] = params.content
        if params.path in self.buffers:
            self.buffers[params.path] = params.content
        Path(params.path).write_text(params.content)
        return s.WriteTextFileResponse()


class Turn:
    """What came of a prompt."""

    def __init__(self) -> None:
        self.updates: list[s.SessionUpdate] = []
        self.stop_reason = ""

    @property
    def text(self) -> str:
        chunks = [update for update in self.updates if isinstance(update, s.AgentMessageChunk)]
        return "".join(chunk.content.text for chunk in chunks if isinstance(chunk.content, s.TextContent))

    @property
    def calls(self) -> list[s.ToolCall]:
        return [update for update in self.updates if isinstance(update, s.ToolCall)]

    @property
    def plans(self) -> list[dict[str, str]]:
        return [{e.content: e.status for e in u.entries} for u in self.updates if isinstance(u, s.Plan)]

    @property
    def findings(self) -> set[tuple[str, int, str]]:
        """Path, line and code of all that the analysers found."""
        outputs = [u.raw_output for u in self.updates if isinstance(u, s.ToolCallUpdated) and u.raw_output]
        return {(f["path"], f["line"], f["code"]) for o in outputs if isinstance(o, dict) for f in o["findings"]}

    @property
    def codes(self) -> set[str]:
        return {code for _, _, code in self.findings}

    def updates_of(self, call: s.ToolCall) -> list[s.ToolCallUpdated]:
        changes = [update for update in self.updates if isinstance(update, s.ToolCallUpdated)]
        return [update for update in changes if update.tool_call_id == call.tool_call_id]


class Reviewing:
    """A session with the reviewer."""

    def __init__(self, session: "s.Any") -> None:
        self.session = session

    async def say(self, *prompt: str | s.ContentBlock, until: Callable[[Turn], bool] | None = None) -> Turn:
        """One turn; cancelled as soon as `until` holds."""
        turn = Turn()
        blocks = [s.TextContent(text=part) if isinstance(part, str) else part for part in prompt]
        async with asyncio.timeout(60):
            async for event in self.session.prompt(blocks):
                if isinstance(event, s.PromptResponse):
                    turn.stop_reason = event.stop_reason
                    break
                turn.updates.append(event)
                if until and until(turn):
                    until = None
                    self.session.cancel()
        return turn


@asynccontextmanager
async def reviewing(
    cwd: Path, client: Client | None = None, command: list[str] | None = None
) -> AsyncIterator[Reviewing]:
    async with connect(command or REVIEWER, client) as connected:
        yield Reviewing(await connected.new_session(cwd=cwd))


@pytest.fixture(scope="session")
def bare_command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The reviewer where no linter is installed: an interpreter with nothing beside it, and a short path."""
    directory = tmp_path_factory.mktemp("bare")
    python = directory / "python"
    python.symlink_to(os.path.realpath(sys.executable))
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return ["env", f"PYTHONPATH={path}", "PATH=/usr/bin:/bin", str(python), "-m", "dragoman", "agent", "reviewer"]


@pytest.fixture
def write(project: Path) -> Iterator[Callable[[str, str], Path]]:
    def write_file(name: str, text: str) -> Path:
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return path

    yield write_file
