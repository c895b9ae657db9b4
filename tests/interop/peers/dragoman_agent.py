"""An agent written with our public API, the twin of sdk_agent.py: the same verbs, for the SDK's client to call.

A prompt is `verb {"argument": ...}`; what a verb found out is said as JSON in the turn's last message.  `locked` on
the command line: no session before `authenticate`.
"""

import asyncio
import json
import sys
from typing import Any

import msgspec

from dragoman import (
    Agent,
    AgentSession,
    AuthRequired,
    Error,
    InvalidParams,
    MethodNotFound,
    ResourceNotFound,
    RpcError,
    Turn,
    extension,
    serve,
)
from dragoman import schema as s

PAGE = 2  # sessions in one answer to session/list

OPTIONS = [
    s.PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
    s.PermissionOption(option_id="always", name="Always allow", kind="allow_always"),
    s.PermissionOption(option_id="no", name="Reject", kind="reject_once"),
    s.PermissionOption(option_id="never", name="Always reject", kind="reject_always"),
]


class Peer(Agent):
    info = s.Implementation(name="dragoman-peer", version="1.2.3", title="Dragoman peer")
    accepts = ("image", "audio", "embedded_context", "http", "sse", "additional_directories")
    modes = [s.SessionMode(id="ask", name="Ask"), s.SessionMode(id="code", name="Code", description="Writes files")]
    config_options = [
        s.SessionConfigSelect(
            id="model",
            name="Model",
            category="model",
            current_value="small",
            options=[
                s.SessionConfigSelectOption(value="small", name="Small"),
                s.SessionConfigSelectOption(value="large", name="Large"),
            ],
        ),
        s.SessionConfigBoolean(id="verbose", name="Verbose", current_value=False),
    ]
    commands = [
        s.AvailableCommand(
            name="test", description="Runs tests", input=s.UnstructuredCommandInput(hint="what to test")
        ),
        s.AvailableCommand(name="help", description="Helps"),
    ]
    auth_methods = [s.AuthMethodAgent(id="token", name="Token", description="Reads it from the keyring")]
    is_locked = False

    async def __aenter__(self) -> "Peer":
        self.handshake: s.InitializeRequest | None = None
        self.history: dict[str, list[s.SessionUpdate]] = {}
        self.notes: list[Any] = []
        return self

    # Handshake

    async def initialize(self, params: s.InitializeRequest) -> s.InitializeResponse:
        self.handshake = params
        return await super().initialize(params)

    async def authenticate(self, params: s.AuthenticateRequest) -> s.AuthenticateResponse:
        if params.method_id != "token":
            raise InvalidParams(data={"methodId": params.method_id})
        self.is_locked = False
        return s.AuthenticateResponse()

    # Sessions

    async def new_session(self, params: s.NewSessionRequest) -> s.NewSessionResponse:
        if self.is_locked:
            raise AuthRequired(data={"methods": ["token"]})
        response = await super().new_session(params)
        self.session(response.session_id).state["meta"] = params.meta
        return msgspec.structs.replace(response, meta={"opened": response.session_id})

    async def opened(self, session: AgentSession) -> None:
        self.history.setdefault(session.id, [])

    async def load_session(self, params: s.LoadSessionRequest) -> s.LoadSessionResponse:
        session = await self._reopen(params)
        for update in self.history[session.id]:
            await session.update(update)
        return s.LoadSessionResponse(modes=self.mode_state(session), config_options=session.config_options)

    async def resume_session(self, params: s.ResumeSessionRequest) -> s.ResumeSessionResponse:
        session = await self._reopen(params)
        return s.ResumeSessionResponse(modes=self.mode_state(session), config_options=session.config_options)

    async def fork_session(self, params: s.ForkSessionRequest) -> s.ForkSessionResponse:
        parent = self.session(params.session_id)
        child = await self.open_session(f"{parent.id}-fork", params)
        child.mode = parent.mode
        self.history[child.id] = list(self.history[parent.id])
        return s.ForkSessionResponse(session_id=child.id, modes=self.mode_state(child))

    async def _reopen(self, params: s.LoadSessionRequest | s.ResumeSessionRequest) -> AgentSession:
        if params.session_id not in self.history:
            raise ResourceNotFound(data={"uri": params.session_id})
        known = self.sessions.get(params.session_id)
        session = await self.open_session(params.session_id, params)
        if known:
            session.mode, session.config_options = known.mode, known.config_options
        return session

    async def list_sessions(self, params: s.ListSessionsRequest) -> s.ListSessionsResponse:
        found = [session for session in self.sessions.values() if params.cwd in (None, session.cwd)]
        start = int(params.cursor or 0)
        infos = [
            s.SessionInfo(session_id=session.id, cwd=session.cwd, title=f"About {session.id}")
            for session in found[start : start + PAGE]
        ]
        more = start + PAGE < len(found)
        return s.ListSessionsResponse(sessions=infos, next_cursor=str(start + PAGE) if more else None)

    # Extensions

    @extension("_peer/handshake")
    async def tell_handshake(self, params: Any) -> Any:
        return self.handshake

    @extension("_peer/echo")
    async def echo_back(self, params: Any) -> Any:
        return params

    @extension("_peer/notes")
    async def tell_notes(self, params: Any) -> Any:
        return {"notes": self.notes}

    @extension("_peer/told")
    def be_told(self, params: Any) -> None:
        self.notes.append(params)

    # Prompts

    async def prompt(self, params: s.PromptRequest) -> s.PromptResponse:
        self.history.setdefault(params.session_id, []).extend(
            s.UserMessageChunk(content=block) for block in params.prompt
        )
        response = await super().prompt(params)
        return msgspec.structs.replace(response, meta=params.meta)

    async def answer(self, turn: Turn) -> s.StopReason | None:
        first = turn.prompt[0]
        assert isinstance(first, s.TextContent)
        verb, _, rest = first.text.partition(" ")
        stop: s.StopReason | None = await getattr(self, f"do_{verb}")(turn, **json.loads(rest or "{}"))
        return stop

    async def report(self, turn: Turn, found: Any) -> None:
        await turn.say(msgspec.json.encode(found).decode())

    async def do_echo(self, turn: Turn) -> None:
        for block in turn.prompt[1:]:
            update = s.AgentMessageChunk(content=block)
            self.history[turn.session.id].append(update)
            await turn.update(update)

    async def do_meta(self, turn: Turn) -> None:
        update = s.AgentMessageChunk(content=s.TextContent(text="marked"), meta={"on": "update"})
        turn.client.update(
            s.SessionNotification(session_id=turn.session.id, update=update, meta={"on": "notification"})
        )
        await self.report(turn, turn.meta)

    async def do_session(self, turn: Turn) -> None:
        session = turn.session
        await self.report(
            turn,
            {
                "cwd": session.cwd,
                "directories": session.additional_directories,
                "servers": session.mcp_servers,
                "meta": session.state["meta"],
            },
        )

    async def do_updates(self, turn: Turn) -> s.StopReason:
        session = turn.session
        await turn.update(s.UserMessageChunk(content=s.TextContent(text="you said")))
        await turn.think("I wonder")
        await turn.say("I say")
        place = s.ToolCallLocation(path="/a.py", line=3)
        async with turn.tool("Edit a.py", kind="edit", locations=[place], raw_input={"path": "/a.py"}) as call:
            await call.start()
            await call.text("done")
            await call.diff("/a.py", "old\n", "new\n")
            await call.show(s.Terminal(terminal_id="term-1"))
            await call.update(
                locations=[s.ToolCallLocation(path="/a.py"), s.ToolCallLocation(path="/b.py", line=1)],
                raw_output={"lines": 1},
            )
        await turn.plan(s.PlanEntry(content="think", priority="high", status="completed"), "act")
        later = s.PlanEntry(content="later", priority="low", status="pending")
        await turn.update(s.PlanUpdate(plan=s.PlanItems(plan_id="p1", entries=[later])))
        await turn.update(s.PlanUpdate(plan=s.PlanFile(plan_id="p2", uri="file:///plan.md")))
        await turn.update(s.PlanUpdate(plan=s.PlanMarkdown(plan_id="p3", content="# Plan")))
        await turn.update(s.PlanRemoved(plan_id="p1"))
        await session.set_commands(self.commands[:1])
        await session.set_mode("code")
        await session.set_config_options(session.config_options)
        await session.update(s.SessionInfoUpdate(title="A title", updated_at="2026-01-02T03:04:05Z"))
        await session.set_title(None)
        await session.report_usage(1200, 200_000, s.Cost(amount=0.25, currency="USD"))
        turn.usage = s.Usage(total_tokens=30, input_tokens=10, output_tokens=20, thought_tokens=5)
        return "max_tokens"

    async def do_ask(self, turn: Turn) -> None:
        try:
            async with turn.tool("Delete everything", kind="delete", id="call-2") as call:
                await call.diff("/a.py", "all", "")
                permission = await turn.ask(call, OPTIONS)
            option = permission.option
            await self.report(turn, {"allowed": bool(permission), "option": option and option.option_id})
        except Error as exc:
            await self.report(turn, {"error": type(exc).__name__})

    async def do_read(self, turn: Turn, **arguments: Any) -> None:
        try:
            await self.report(turn, {"content": await turn.read(**arguments)})
        except RpcError as exc:
            await self.report(turn, {"code": exc.code, "message": exc.message, "data": exc.data})
        except Error as exc:
            await self.report(turn, {"error": type(exc).__name__})

    async def do_write(self, turn: Turn, **arguments: Any) -> None:
        await turn.write(**arguments)
        await self.report(turn, {"written": arguments["path"]})

    async def do_run(self, turn: Turn, command: str, args: list[str], **arguments: Any) -> None:
        async with turn.terminal(command, *args, **arguments) as terminal:
            async with turn.tool("Run", kind="execute", id="call-4") as call:
                await call.terminal(terminal)
                ended = await terminal.wait()
            output = await terminal.output()
        await self.report(turn, {"terminal": terminal.id, "ended": ended, "output": output})

    async def do_kill(self, turn: Turn, command: str, args: list[str]) -> None:
        async with turn.terminal(command, *args) as terminal:
            while not (before := await terminal.output()).output:
                pass  # each asking is a round trip, so this does not spin
            await terminal.kill()
            ended = await terminal.wait()
            after = await terminal.output()
        try:
            await terminal.output()
        except RpcError as exc:
            released = exc.code
        await self.report(turn, {"before": before, "ended": ended, "after": after, "released": released})

    async def do_wait(self, turn: Turn) -> None:
        try:
            async with turn.tool("Wait", kind="execute", id="call-3") as call:
                await call.start()
                await asyncio.Event().wait()
        finally:
            await turn.say("stopped")

    async def do_fail(self, turn: Turn, code: int, message: str, data: Any = None) -> None:
        raise RpcError.of(code, message, data)

    async def do_crash(self, turn: Turn, words: str) -> None:
        raise RuntimeError(words)

    async def do_count(self, turn: Turn, to: int) -> None:
        for number in range(to):
            await turn.say(str(number))

    async def do_say(self, turn: Turn, size: int) -> None:
        await turn.say("é" * size)

    async def do_extend(self, turn: Turn) -> None:
        found = {"answer": await turn.client.request("_peer/ask", {"question": [1, None, "two"]})}
        try:
            await turn.client.request("_peer/unheard_of")
        except MethodNotFound as exc:
            found["unknown"] = exc.code
        turn.client.notify("_peer/note", {"number": 7})
        await self.report(turn, found)

    async def do_fill(self, turn: Turn) -> None:
        form = s.ElicitationSchema(
            properties={
                "name": s.StringPropertySchema(title="Name", min_length=1),
                "age": s.IntegerPropertySchema(minimum=0),
            },
            required=["name"],
        )
        try:
            await self.report(turn, await turn.elicit("Who are you?", form))
        except Error as exc:
            await self.report(turn, {"error": type(exc).__name__})

    async def do_visit(self, turn: Turn, url: str) -> None:
        agreed = await turn.elicit_url("Log in there", url, id="visit-1")
        turn.client.complete_elicitation(s.CompleteElicitationNotification(elicitation_id="visit-1"))
        await self.report(turn, agreed)


class Locked(Peer):
    is_locked = True


if __name__ == "__main__":
    serve(Locked if "locked" in sys.argv[1:] else Peer)
