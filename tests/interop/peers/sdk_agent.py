"""An agent written with the official SDK alone.

A prompt is `verb {"argument": ...}`: one verb for each thing an agent can do.  What a verb found out is said as
JSON in the turn's last message.  `locked` on the command line: no session before `authenticate`; `future`: an agent
of a protocol version that does not exist yet.
"""

import asyncio
import itertools
import json
import sys
from typing import Any

from acp import (
    PROTOCOL_VERSION,
    Agent,
    Client,
    RequestError,
    plan_entry,
    run_agent,
    start_tool_call,
    text_block,
    tool_content,
    tool_diff_content,
    tool_terminal_ref,
    update_agent_message,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_tool_call,
    update_user_message,
)
from acp.helpers import update_available_commands, update_current_mode
from acp.schema import (
    AgentCapabilities,
    AgentPlanContentUpdate,
    AgentPlanRemovedUpdate,
    AuthenticateResponse,
    AuthMethodAgent,
    AvailableCommand,
    AvailableCommandInput,
    ConfigOptionUpdate,
    Cost,
    ElicitationFormSessionMode,
    ElicitationIntegerPropertySchema,
    ElicitationSchema,
    ElicitationStringPropertySchema,
    ElicitationUrlSessionMode,
    EnvVariable,
    ForkSessionResponse,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    NewSessionResponse,
    PermissionOption,
    PlanUpdateItems,
    PlanUpdateMarkdown,
    PromptCapabilities,
    PromptResponse,
    ResumeSessionResponse,
    SessionAdditionalDirectoriesCapabilities,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionConfigOptionBoolean,
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionForkCapabilities,
    SessionInfo,
    SessionInfoUpdate,
    SessionListCapabilities,
    SessionMode,
    SessionModeState,
    SessionResumeCapabilities,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
    ToolCallLocation,
    ToolCallUpdate,
    UnstructuredCommandInput,
    Usage,
    UsageUpdate,
)

PAGE = 2  # sessions in one answer to session/list

OPTIONS = [
    PermissionOption(option_id="yes", name="Allow", kind="allow_once"),
    PermissionOption(option_id="always", name="Always allow", kind="allow_always"),
    PermissionOption(option_id="no", name="Reject", kind="reject_once"),
    PermissionOption(option_id="never", name="Always reject", kind="reject_always"),
]


class Session:
    def __init__(self, id: str, cwd: str, **given: Any) -> None:
        self.id, self.cwd, self.given = id, cwd, given
        self.mode = "ask"
        self.model = "small"
        self.verbose = False
        self.history: list[Any] = []
        self.cancelled = asyncio.Event()

    @property
    def modes(self) -> SessionModeState:
        modes = [SessionMode(id="ask", name="Ask"), SessionMode(id="code", name="Code", description="Writes files")]
        return SessionModeState(current_mode_id=self.mode, available_modes=modes)

    @property
    def config_options(self) -> list[SessionConfigOptionSelect | SessionConfigOptionBoolean]:
        models = [SessionConfigSelectOption(value=name, name=name.title()) for name in ("small", "large")]
        return [
            SessionConfigOptionSelect(
                id="model", name="Model", category="model", type="select", current_value=self.model, options=models
            ),
            SessionConfigOptionBoolean(id="verbose", name="Verbose", type="boolean", current_value=self.verbose),
        ]


class SdkAgent(Agent):
    client: Client

    def __init__(self, *words: str) -> None:
        self.is_locked = "locked" in words
        self.version = 99 if "future" in words else PROTOCOL_VERSION
        self.sessions: dict[str, Session] = {}
        self.handshake: dict[str, Any] = {}
        self.notes: list[dict[str, Any]] = []
        self.ids = (f"session-{number}" for number in itertools.count(1))

    def on_connect(self, conn: Client) -> None:
        self.client = conn

    # Handshake

    async def initialize(self, protocol_version, client_capabilities=None, client_info=None, **kwargs):
        self.handshake = {
            "version": protocol_version,
            "capabilities": client_capabilities.model_dump(mode="json", by_alias=True, exclude_none=True),
            "info": client_info.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
        return InitializeResponse(
            protocol_version=self.version,
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, audio=True, embedded_context=True),
                mcp_capabilities=McpCapabilities(http=True, sse=True),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(),
                    fork=SessionForkCapabilities(),
                    resume=SessionResumeCapabilities(),
                    close=SessionCloseCapabilities(),
                    additional_directories=SessionAdditionalDirectoriesCapabilities(),
                ),
            ),
            auth_methods=[AuthMethodAgent(id="token", name="Token", description="Reads it from the keyring")],
            agent_info=Implementation(name="sdk-agent", title="SDK agent", version="3.2.1"),
        )

    async def authenticate(self, method_id, **kwargs):
        if method_id != "token":
            raise RequestError.invalid_params({"methodId": method_id})
        self.is_locked = False
        return AuthenticateResponse()

    # Sessions

    async def new_session(self, cwd, additional_directories=None, mcp_servers=None, **kwargs):
        if self.is_locked:
            raise RequestError.auth_required({"methods": ["token"]})
        session = Session(
            next(self.ids), cwd, directories=additional_directories or [], servers=mcp_servers or [], meta=kwargs
        )
        self.sessions[session.id] = session
        return NewSessionResponse(
            session_id=session.id,
            modes=session.modes,
            config_options=session.config_options,
            field_meta={"opened": session.id},
        )

    async def load_session(self, cwd, session_id, mcp_servers=None, additional_directories=None, **kwargs):
        session = self.session(session_id)
        for update in session.history:
            await self.client.session_update(session_id, update)
        return LoadSessionResponse(modes=session.modes, config_options=session.config_options)

    async def resume_session(self, session_id, cwd, additional_directories=None, mcp_servers=None, **kwargs):
        session = self.session(session_id)
        return ResumeSessionResponse(modes=session.modes, config_options=session.config_options)

    async def fork_session(self, session_id, cwd, additional_directories=None, mcp_servers=None, **kwargs):
        parent, child = self.session(session_id), Session(next(self.ids), cwd)
        child.history, child.mode = list(parent.history), parent.mode
        self.sessions[child.id] = child
        return ForkSessionResponse(session_id=child.id, modes=child.modes)

    async def list_sessions(self, cwd=None, cursor=None, **kwargs):
        found = [session for session in self.sessions.values() if cwd in (None, session.cwd)]
        start = int(cursor or 0)
        infos = [
            SessionInfo(session_id=session.id, cwd=session.cwd, title=f"About {session.id}")
            for session in found[start : start + PAGE]
        ]
        more = start + PAGE < len(found)
        return ListSessionsResponse(sessions=infos, next_cursor=str(start + PAGE) if more else None)

    async def close_session(self, session_id, **kwargs):
        self.session(session_id).cancelled.set()
        del self.sessions[session_id]

    async def set_session_mode(self, session_id, mode_id, **kwargs):
        session = self.session(session_id)
        if mode_id not in {mode.id for mode in session.modes.available_modes}:
            raise RequestError.invalid_params({"modeId": mode_id})
        session.mode = mode_id
        return SetSessionModeResponse()

    async def set_config_option(self, config_id, session_id, value, **kwargs):
        session = self.session(session_id)
        if config_id == "verbose" and isinstance(value, bool):
            session.verbose = value
        elif config_id == "model" and value in ("small", "large"):
            session.model = value
        else:
            raise RequestError.invalid_params({config_id: value})
        return SetSessionConfigOptionResponse(config_options=session.config_options)

    def session(self, id: str) -> Session:
        if id not in self.sessions:
            raise RequestError.resource_not_found(id)
        return self.sessions[id]

    # Extensions

    async def ext_method(self, method, params):
        match method:
            case "peer/handshake":
                return self.handshake
            case "peer/echo":
                return params
            case "peer/notes":
                return {"notes": self.notes}
            case "peer/never":
                await asyncio.Event().wait()
        raise RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method, params):
        self.notes.append({"method": method, "params": params})

    # Prompts

    async def prompt(self, session_id, prompt, **kwargs):
        session = self.session(session_id)
        session.cancelled.clear()
        session.history += [update_user_message(block) for block in prompt]
        verb, _, rest = prompt[0].text.partition(" ")
        arguments = json.loads(rest or "{}")
        if verb in ("echo", "meta"):
            arguments |= {"blocks": prompt[1:], "meta": kwargs}
        done = await getattr(self, f"do_{verb}")(session, **arguments)
        return done or PromptResponse(stop_reason="end_turn")

    async def cancel(self, session_id, **kwargs):
        self.session(session_id).cancelled.set()

    async def tell(self, session: Session, update: Any, **meta: Any) -> None:
        session.history.append(update)
        await self.client.session_update(session.id, update, **meta)

    async def report(self, session: Session, found: Any) -> None:
        await self.tell(session, update_agent_message_text(json.dumps(found)))

    async def do_echo(self, session, blocks, meta):
        for block in blocks:
            await self.tell(session, update_agent_message(block))

    async def do_meta(self, session, blocks, meta):
        update = update_agent_message_text("marked")
        update.field_meta = {"on": "update"}
        await self.tell(session, update, on="notification")
        await self.report(session, meta)
        return PromptResponse(stop_reason="end_turn", field_meta={"on": "response"})

    async def do_session(self, session):
        given = session.given
        await self.report(
            session,
            {
                "cwd": session.cwd,
                "directories": given["directories"],
                "servers": [server.model_dump(mode="json", by_alias=True) for server in given["servers"]],
                "meta": given["meta"],
            },
        )

    async def do_updates(self, session):
        command = AvailableCommandInput(UnstructuredCommandInput(hint="what to test"))
        session.mode, session.model = "code", "large"
        for update in (
            update_user_message(text_block("you said")),
            update_agent_thought_text("I wonder"),
            update_agent_message_text("I say"),
            start_tool_call(
                "call-1",
                "Edit a.py",
                kind="edit",
                status="pending",
                locations=[ToolCallLocation(path="/a.py", line=3)],
                raw_input={"path": "/a.py"},
            ),
            update_tool_call(
                "call-1",
                status="completed",
                content=[
                    tool_content(text_block("done")),
                    tool_diff_content("/a.py", "new\n", "old\n"),
                    tool_terminal_ref("term-1"),
                ],
                locations=[ToolCallLocation(path="/a.py"), ToolCallLocation(path="/b.py", line=1)],
                raw_output={"lines": 1},
            ),
            update_plan([plan_entry("think", priority="high", status="completed"), plan_entry("act")]),
            AgentPlanContentUpdate(
                session_update="plan_update",
                plan=PlanUpdateItems(type="items", plan_id="p1", entries=[plan_entry("later", priority="low")]),
            ),
            AgentPlanContentUpdate(
                session_update="plan_update",
                plan=PlanUpdateMarkdown(type="markdown", plan_id="p2", content="# Plan"),
            ),
            AgentPlanRemovedUpdate(session_update="plan_removed", plan_id="p1"),
            update_available_commands(
                [
                    AvailableCommand(name="test", description="Runs tests", input=command),
                    AvailableCommand(name="help", description="Helps"),
                ]
            ),
            update_current_mode("code"),
            ConfigOptionUpdate(session_update="config_option_update", config_options=session.config_options),
            SessionInfoUpdate(
                session_update="session_info_update", title="A title", updated_at="2026-01-02T03:04:05Z"
            ),
            UsageUpdate(
                session_update="usage_update", used=1200, size=200000, cost=Cost(amount=0.25, currency="USD")
            ),
        ):
            await self.tell(session, update)
        return PromptResponse(
            stop_reason="max_tokens",
            usage=Usage(total_tokens=30, input_tokens=10, output_tokens=20, thought_tokens=5),
        )

    async def do_ask(self, session):
        call = ToolCallUpdate(
            tool_call_id="call-2",
            title="Delete everything",
            kind="delete",
            status="pending",
            content=[tool_diff_content("/a.py", "", "all")],
        )
        response = await self.client.request_permission(session.id, call, OPTIONS)
        await self.report(session, response.outcome.model_dump(mode="json", by_alias=True))
        if session.cancelled.is_set():
            return PromptResponse(stop_reason="cancelled")
        return None

    async def do_read(self, session, **arguments):
        try:
            response = await self.client.read_text_file(session_id=session.id, **arguments)
            await self.report(session, {"content": response.content})
        except RequestError as exc:
            await self.report(session, exc.to_error_obj())

    async def do_write(self, session, **arguments):
        await self.client.write_text_file(session_id=session.id, **arguments)
        await self.report(session, {"written": arguments["path"]})

    async def do_run(self, session, env=None, **arguments):
        env = [EnvVariable(name=name, value=value) for name, value in (env or {}).items()]
        created = await self.client.create_terminal(session_id=session.id, env=env, **arguments)
        ids = {"session_id": session.id, "terminal_id": created.terminal_id}
        ended = await self.client.wait_for_terminal_exit(**ids)
        output = await self.client.terminal_output(**ids)
        await self.client.release_terminal(**ids)
        await self.report(session, {"ended": ended.model_dump(by_alias=True), **output.model_dump(by_alias=True)})

    async def do_kill(self, session, **arguments):
        created = await self.client.create_terminal(session_id=session.id, **arguments)
        ids = {"session_id": session.id, "terminal_id": created.terminal_id}
        while not (before := await self.client.terminal_output(**ids)).output:
            pass  # each asking is a round trip, so this does not spin
        await self.client.kill_terminal(**ids)
        ended = await self.client.wait_for_terminal_exit(**ids)
        after = await self.client.terminal_output(**ids)
        await self.client.release_terminal(**ids)
        try:
            await self.client.terminal_output(**ids)
        except RequestError as exc:
            released = exc.code
        await self.report(
            session,
            {
                "before": before.model_dump(by_alias=True),
                "ended": ended.model_dump(by_alias=True),
                "after": after.model_dump(by_alias=True),
                "released": released,
            },
        )

    async def do_wait(self, session):
        await self.tell(session, start_tool_call("call-3", "Wait", kind="execute", status="in_progress"))
        await session.cancelled.wait()
        await self.tell(session, update_agent_message_text("stopped"))
        return PromptResponse(stop_reason="cancelled")

    async def do_fail(self, session, code, message, data=None):
        raise RequestError(code, message, data)

    async def do_crash(self, session, words):
        raise RuntimeError(words)

    async def do_count(self, session, to):
        for number in range(to):
            await self.tell(session, update_agent_message_text(str(number)))

    async def do_say(self, session, size):
        await self.tell(session, update_agent_message_text("é" * size))

    async def do_extend(self, session):
        found = {"answer": await self.client.ext_method("peer/ask", {"question": [1, None, "two"]})}
        try:
            await self.client.ext_method("peer/unheard_of", {})
        except RequestError as exc:
            found["unknown"] = exc.code
        await self.client.ext_notification("peer/unheard_of", {})
        await self.client.ext_notification("peer/note", {"number": 7})
        await self.report(session, found)

    async def do_fill(self, session):
        form = ElicitationSchema(
            properties={
                "name": ElicitationStringPropertySchema(type="string", title="Name", min_length=1),
                "age": ElicitationIntegerPropertySchema(type="integer", minimum=0),
            },
            required=["name"],
        )
        mode = ElicitationFormSessionMode(session_id=session.id, requested_schema=form)
        response = await self.client.create_elicitation("Who are you?", mode)
        await self.report(session, response.model_dump(mode="json", by_alias=True, exclude_none=True))

    async def do_visit(self, session, url):
        mode = ElicitationUrlSessionMode(session_id=session.id, elicitation_id="visit-1", url=url)
        response = await self.client.create_elicitation("Log in there", mode)
        await self.client.complete_elicitation("visit-1")
        await self.report(session, response.model_dump(mode="json", by_alias=True, exclude_none=True))


if __name__ == "__main__":
    # Forking, resuming, closing and asking the user are all "unstable" to this SDK.
    asyncio.run(run_agent(SdkAgent(*sys.argv[1:]), use_unstable_protocol=True))
