"""What the tools do: each is a call of the protocol."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from ... import schema as s
from ...client.client import Client
from ...foundation.owning import Held
from ...host.host import Host
from ...host.permissions.engine import Preset
from ...host.processes import Launch, start
from ...transcript import Transcript
from .driven import DrivenSession, DrivenSessions, DrivenTurn, McpHost

Arguments = dict[str, Any]  # checked against the tool's schema
Answer = dict[str, object]


class AgentTools:
    """The tools of one agent, which is started with the first call that needs it, and again after it ended."""

    def __init__(self, agent: Launch, workspace: str, preset: Preset = "ask") -> None:
        self._agent, self._preset = agent, preset
        self.conversations = DrivenSessions(workspace)
        self._workspace = workspace
        self._host: McpHost | None = None
        self._held: Held[Client] | None = None
        self._starting = asyncio.Lock()
        self._calls: dict[str, Callable[[Arguments], Awaitable[Answer]]] = {
            "start_session": self._start_session,
            "cancel": self._cancel,
            "list_sessions": self._list_sessions,
            "load_session": self._load_session,
            "fork_session": self._fork_session,
            "set_mode": self._set_mode,
            "set_option": self._set_option,
            "close_session": self._close_session,
        }

    async def close(self) -> None:
        """End the agent."""
        if self._held:
            held, self._held, self._host = self._held, None, None
            await held.__aexit__(None, None, None)

    async def call(self, name: str, arguments: Arguments) -> Answer:
        """Call a tool other than `prompt`; gives its structured result."""
        return await self._calls[name](arguments)

    async def begin(self, arguments: Arguments) -> DrivenTurn:
        """Start a turn of the session that is named, or of a new one."""
        if session_id := arguments.get("sessionId"):
            conversation = self.conversations.find(session_id)
        else:
            conversation = await self._opened(arguments)
        files = [s.ResourceLink(name=path, uri=self._uri(path)) for path in arguments.get("files") or ()]
        return conversation.begin([s.TextContent(text=arguments["text"]), *files])

    async def _client(self) -> Host:
        async with self._starting:
            if self._host is None or self._host.closed:
                await self.close()
                self.conversations = DrivenSessions(self._workspace)
                host = McpHost(self.conversations, preset=self._preset, agent_name=self._agent.name)
                held = Held(start(self._agent, host))
                await held.__aenter__()
                self._host, self._held = host, held
            return self._host

    async def _opened(self, arguments: Arguments) -> DrivenSession:
        client = await self._client()
        self.conversations.check_room()
        return self.conversations.keep(await client.new_session(self._directory(arguments)))

    async def _start_session(self, arguments: Arguments) -> Answer:
        return _described(await self._opened(arguments))

    async def _cancel(self, arguments: Arguments) -> Answer:
        conversation = self.conversations.find(arguments["sessionId"])
        if (turn := conversation.turn) is None:
            return {"cancelled": False}
        turn.cancel()
        return {"cancelled": True}

    async def _list_sessions(self, arguments: Arguments) -> Answer:
        client = await self._client()
        found = await client.list_sessions(self._directory(arguments) if arguments.get("cwd") else None)
        return {"sessions": [msgspec.to_builtins(info) for info in found]}

    async def _load_session(self, arguments: Arguments) -> Answer:
        client = await self._client()
        self.conversations.check_room()
        session = await client.load_session(arguments["sessionId"], self._directory(arguments))
        said = Transcript(session.backlog()).messages
        told = [{"speaker": message.speaker, "text": message.text} for message in said]
        return {**_described(self.conversations.keep(session)), "messages": told}

    async def _fork_session(self, arguments: Arguments) -> Answer:
        client = await self._client()
        self.conversations.check_room()
        session = await client.fork_session(arguments["sessionId"], self._directory(arguments))
        return _described(self.conversations.keep(session))

    async def _set_mode(self, arguments: Arguments) -> Answer:
        session = self.conversations.find(arguments["sessionId"]).session
        await session.set_mode(arguments["mode"])
        return {"mode": arguments["mode"]}

    async def _set_option(self, arguments: Arguments) -> Answer:
        session = self.conversations.find(arguments["sessionId"]).session
        await session.set_config_option(arguments["option"], arguments["value"])
        return _described(self.conversations.find(arguments["sessionId"]))

    async def _close_session(self, arguments: Arguments) -> Answer:
        session = self.conversations.find(arguments["sessionId"]).session
        self.conversations.drop(session.id)
        await session.close()
        return {"closed": True}

    def _uri(self, path: str) -> str:
        return Path(self._workspace, path).resolve().as_uri()

    def _directory(self, arguments: Arguments) -> str:
        return self.conversations.directory(arguments.get("cwd"))


def _described(conversation: DrivenSession) -> Answer:
    session = conversation.session
    return {
        "sessionId": session.id,
        "modes": [mode.id for mode in session.modes.available_modes] if session.modes else [],
        "mode": session.modes.current_mode_id if session.modes else None,
        "options": [msgspec.to_builtins(option) for option in session.config_options],
    }
