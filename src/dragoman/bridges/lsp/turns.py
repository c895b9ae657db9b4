"""Prompts that an editor sends: one at a time, with progress that can be cancelled."""

import asyncio
import secrets
from collections.abc import Sequence

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer

from ... import schema as s
from ...client.session import Session
from ...errors import Error
from ...foundation.owning import Held
from ...host.permissions.engine import Preset
from ...host.processes import Launch, start
from ...transcript import Transcript
from .editor import EditorHost

MAX_TOLD = 200  # characters of a progress report
MAX_WORDS = 1024 * 1024  # characters of an answer
CREATE = 5.0  # seconds the editor has to agree to show progress


class EditorTurns:
    """The session of an agent with the editor; the agent starts with the first prompt, and again after it ended."""

    def __init__(self, server: LanguageServer, agent: Launch, preset: Preset) -> None:
        self._server, self._agent, self._preset = server, agent, preset
        self._held: Held[object] | None = None
        self._host: EditorHost | None = None
        self._session: Session | None = None
        self._one = asyncio.Lock()

    async def close(self) -> None:
        """End the agent."""
        if self._held:
            held, self._held, self._host, self._session = self._held, None, None, None
            await held.__aexit__(None, None, None)

    async def ask(self, prompt: Sequence[s.ContentBlock], title: str, cwd: str) -> str:
        """What the agent answers; raises an Error, and cancels the turn when the editor does."""
        async with self._one:
            session = await self._opened(cwd)
            token = await self._begun(title)
            try:
                return await self._told(session, prompt, token)
            finally:
                if token:
                    self._server.work_done_progress.end(token, types.WorkDoneProgressEnd())
                    self._server.work_done_progress.tokens.pop(token, None)

    async def _opened(self, cwd: str) -> Session:
        if self._host is None or self._host.closed or self._session is None:
            await self.close()
            host = EditorHost(self._server, self._agent.name or "the agent", self._preset)
            held: Held[object] = Held(start(self._agent, host))
            await held.__aenter__()
            self._host, self._held = host, held
            try:
                self._session = await host.new_session(cwd)
            except BaseException:
                await self.close()
                raise
        return self._session

    async def _begun(self, title: str) -> str:
        """The token of the progress that the editor shows; "" where it shows none."""
        window = self._server.client_capabilities.window
        if not (window and window.work_done_progress):
            return ""
        token = secrets.token_hex(8)
        try:
            async with asyncio.timeout(CREATE):
                await self._server.work_done_progress.create_async(token)
        except (TimeoutError, JsonRpcException):
            return ""
        begin = types.WorkDoneProgressBegin(title=title, cancellable=True)
        self._server.work_done_progress.begin(token, begin)
        return token

    async def _told(self, session: Session, prompt: Sequence[s.ContentBlock], token: str) -> str:
        loop, transcript = asyncio.get_running_loop(), Transcript()
        if token:  # which the editor's user cancels
            pressed = self._server.work_done_progress.tokens[token]
            pressed.add_done_callback(lambda _: loop.call_soon_threadsafe(session.cancel))
        running = session.prompt(list(prompt))
        try:
            async for event in running:
                transcript.apply(event)
                if token and (words := _told(event)):
                    report = types.WorkDoneProgressReport(message=words[:MAX_TOLD], cancellable=True)
                    self._server.work_done_progress.report(token, report)
        except asyncio.CancelledError:
            session.cancel()
            raise
        if running.response.stop_reason == "cancelled":
            raise Error("the turn was cancelled")
        said = "".join(message.text for message in transcript.messages if message.speaker == "agent")
        return said[:MAX_WORDS]


def _told(event: object) -> str:
    match event:
        case s.ToolCall(title=title):
            return title
        case s.AgentMessageChunk(content=s.TextContent(text=text)):
            return " ".join(text.split())
    return ""
