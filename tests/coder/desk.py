"""What the coder's tests share: a client on a real directory, and a coder with a scripted model in front of it."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from dragoman import Session
from dragoman import schema as s
from dragoman.coder import Coder, ScriptedModel
from dragoman.coder.context.history import Results, TextPart
from dragoman.coder.loop import TurnLimits
from dragoman.errors import ResourceNotFound
from dragoman.testing import RecordingClient, pair

QUICK = TurnLimits(delay=0.0, longest_delay=0.0)


class DiskClient(RecordingClient):
    """Lends its real files and real terminals."""

    async def read_text_file(self, params: s.ReadTextFileRequest) -> s.ReadTextFileResponse:
        self.requests.append(params)
        try:
            return s.ReadTextFileResponse(content=Path(params.path).read_text())
        except FileNotFoundError:
            raise ResourceNotFound(f"Resource not found: {params.path}") from None

    async def write_text_file(self, params: s.WriteTextFileRequest) -> s.WriteTextFileResponse:
        self.requests.append(params)
        Path(params.path).parent.mkdir(parents=True, exist_ok=True)
        Path(params.path).write_text(params.content)
        return s.WriteTextFileResponse()


class Reading(DiskClient):
    """Has the titles of sessions to wait for."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.titles: asyncio.Queue[Any] = asyncio.Queue()

    def update(self, params: s.SessionNotification) -> None:
        super().update(params)
        if isinstance(params.update, s.SessionInfoUpdate):
            self.titles.put_nowait(params.update.title)


class BareClient(RecordingClient):
    """Lends nothing at all, and can only be asked for permission."""

    def capabilities(self) -> s.ClientCapabilities:
        return s.ClientCapabilities()


@contextlib.asynccontextmanager
async def desk(
    cwd: Path,
    *steps: Any,
    client: RecordingClient | None = None,
    mode: str | None = None,
    model: ScriptedModel | None = None,
    options: dict[str, Any] | None = None,
    **coder: Any,
) -> AsyncIterator[tuple[Session, RecordingClient, ScriptedModel]]:
    """A session with a coder whose model says these steps."""
    scripted = model or ScriptedModel(*steps)
    settings = {"limits": QUICK, "language_servers": False, **coder}
    app: Callable[[Any], Coder] = lambda remote: Coder(remote, model=scripted, **settings)  # noqa: E731
    async with pair(app, client or DiskClient()) as connected:
        session = await connected.new_session(cwd, **(options or {}))
        if mode:
            await session.set_mode(mode)
        yield session, connected, scripted


def results(model: ScriptedModel) -> list[tuple[str, str, str]]:
    """Every result the model was told: the tool, how it went, the words."""
    seen = {}
    for request in model.requests:
        for message in request.history:
            if isinstance(message, Results):
                for result in message.results:
                    words = "\n".join(part.text for part in result.parts if isinstance(part, TextPart))
                    seen[result.id] = (result.name, result.outcome, words)
    return list(seen.values())


def said(updates: Sequence[Any]) -> str:
    """The agent's words among updates."""
    chunks = [u.content for u in updates if isinstance(u, s.AgentMessageChunk)]
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, s.TextContent))


def updates(client: RecordingClient) -> list[Any]:
    return [note.update for note in client.updates]


def calls(client: RecordingClient) -> dict[str, dict[str, Any]]:
    """Every tool call of the model as it ended: its fields folded together."""
    found: dict[str, dict[str, Any]] = {}
    for update in updates(client):
        if isinstance(update, s.ToolCall):
            if is_about_a_server(update.title):
                continue
            found[update.tool_call_id] = {
                "title": update.title,
                "status": update.status,
                "kind": update.kind,
                "locations": list(update.locations),
                "content": [],
            }
        elif isinstance(update, s.ToolCallUpdated) and update.tool_call_id in found:
            known = found[update.tool_call_id]
            for name in ("title", "status", "kind", "locations", "content"):
                if (value := getattr(update, name)) is not None:
                    known[name] = value
    return found


def snapshot(root: Path) -> dict[str, tuple[int, bytes]]:
    """Everything below a directory: names, modes, contents."""
    found = {}
    for directory, _, files in os.walk(root):
        for name in files:
            path = Path(directory, name)
            found[str(path.relative_to(root))] = (path.lstat().st_mode, path.read_bytes())
        found[directory] = (Path(directory).stat().st_mode, b"")
    return found


def asked(client: RecordingClient) -> list[s.RequestPermissionRequest]:
    """What the user was asked, other than whether an MCP server may be used."""
    asked = [request for request in client.requests if isinstance(request, s.RequestPermissionRequest)]
    return [request for request in asked if not is_about_a_server(request.tool_call.title)]


def is_about_a_server(title: str | None) -> bool:
    return (title or "").startswith(("Start the MCP server", "Connect to the MCP server"))
