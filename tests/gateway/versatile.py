"""An agent that uses its client's MCP servers in both ways, suggests edits, and begins sessions of its own."""

import asyncio
from typing import Any

from dragoman import Agent, extension
from dragoman import schema as s
from dragoman.agent.turn import new_id
from dragoman.errors import ResourceNotFound

POSITION = s.Position(line=0, character=0)


class Versatile(Agent):
    accepts = ("acp",)

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self.lines: dict[str, str] = {}  # a session's connection to its first server
        self.heard: asyncio.Queue[Any] = asyncio.Queue()  # what servers say by themselves
        self.documents: dict[str, dict[str, str]] = {}  # texts, by session of suggestions
        self.begun: dict[str, asyncio.Event] = {}  # sessions of its own, and whether they were cancelled

    async def opened(self, session: Any) -> None:
        """Begin with the servers at once, before the client has its answer."""
        for server in [server for server in session.mcp_servers if isinstance(server, s.McpServerAcp)][:1]:
            connected = await self.client.connect_mcp(s.ConnectMcpRequest(server_id=server.server_id))
            self.lines[session.id] = connected.connection_id

    def mcp_notification(self, params: Any) -> None:
        self.heard.put_nowait(params)

    async def mcp_request(self, params: s.ConnectionMcpRequest) -> Any:
        return {"isKnown": params.connection_id in self.lines.values(), "method": params.method}

    async def answer(self, turn: Any) -> None:
        word = turn.text.partition(" ")[0]
        await turn.say(f"{word}: ")
        line = self.lines.get(turn.session.id, "")
        if word == "call":
            await self._call(turn)
        elif word == "line":
            request = s.ConnectionMcpRequest(connection_id=line, method="tools/list")
            await turn.say(repr(await self.client.message_mcp(request)))
            told = s.ConnectionMcpNotification(connection_id=line, method="notifications/done")
            self.client.notify_mcp(told)
            await turn.say("told")
        elif word == "hang":
            await self.client.disconnect_mcp(s.DisconnectMcpRequest(connection_id=line))
            await turn.say("hung up")
        elif word == "begin" and turn.client.offers.subagents:
            await self._begin(turn)

    async def _call(self, turn: Any) -> None:
        for server in turn.session.mcp_servers:
            asked = s.MessageMcpRequest(server_id=server.server_id, request_id="1", method="tools/call")
            answered = await self.client.message_mcp(asked)
            told = await self.heard.get()
            is_about_it = (told.server_id, told.request_id) == (server.server_id, "1")
            await turn.say(f"{server.name} {answered} {told.method} {is_about_it} ")

    async def _begin(self, turn: Any) -> None:
        child = f"child-{len(self.begun) + 1}"
        self.begun[child] = asyncio.Event()
        may_cancel = s.SubagentSessionCapabilities(cancel=s.SessionCancelCapabilities())
        await turn.update(
            s.SubagentUpdate(
                session_id=child, title="Helper", state=s.RunningStateUpdate(), capabilities=may_cancel
            )
        )
        self._say(child, "I am new")

    def _say(self, child: str, words: str) -> None:
        said = s.AgentMessageChunk(content=s.TextContent(text=words))
        self.client.update(s.SessionNotification(session_id=child, update=said))

    async def prompt(self, params: s.PromptRequest) -> s.PromptResponse:
        if params.session_id not in self.begun:
            return await super().prompt(params)
        self._say(params.session_id, "I wait")
        await self.begun[params.session_id].wait()
        self._say(params.session_id, "I stop")
        return s.PromptResponse(stop_reason="cancelled")

    def cancel(self, params: s.CancelNotification) -> None:
        if params.session_id in self.begun:
            self.begun[params.session_id].set()
        else:
            super().cancel(params)

    @extension("_versatile/which")
    async def which(self, params: Any) -> Any:
        return {"isBegun": params["sessionId"] in self.begun}

    # Suggestions

    async def start_nes(self, params: s.StartNesRequest) -> s.StartNesResponse:
        id = new_id("nes")
        self.documents[id] = {}
        return s.StartNesResponse(session_id=id)

    def did_open_document(self, params: s.DidOpenDocumentNotification) -> None:
        self.documents[params.session_id][params.uri] = params.text

    def did_change_document(self, params: s.DidChangeDocumentNotification) -> None:
        self.documents[params.session_id][params.uri] = params.content_changes[-1].text

    def accept_nes(self, params: s.AcceptNesNotification) -> None:
        self.documents[params.session_id][params.id] = "accepted"

    async def suggest_nes(self, params: s.SuggestNesRequest) -> s.SuggestNesResponse:
        known = self._known(params.session_id)
        edit = s.NesTextEdit(range=s.Range(start=POSITION, end=POSITION), new_text=repr(known))
        return s.SuggestNesResponse(suggestions=[s.NesEditSuggestion(id="edit", uri=params.uri, edits=[edit])])

    async def close_nes(self, params: s.CloseNesRequest) -> s.CloseNesResponse:
        self._known(params.session_id)
        del self.documents[params.session_id]
        return s.CloseNesResponse()

    @extension("_versatile/suggesting")
    async def suggesting(self, params: Any) -> Any:
        return len(self.documents)

    def _known(self, session: str) -> dict[str, str]:
        if session not in self.documents:
            raise ResourceNotFound("no such session of suggestions")
        return self.documents[session]
