"""What an MCP host is told: of updates as progress and log messages, of turns as results."""

from collections.abc import Mapping
from typing import NamedTuple, get_args

import mcp_types as types
from mcp.server.connection import allowed_log_levels
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ... import schema as s
from .driven import DrivenTurn, calls_of

MAX_TOLD = 2000  # characters of an update that a host is told
MAX_TEXT = 1024 * 1024  # characters of what the agent said, in a result
MAX_CALLS = 500  # tool calls of a turn that a result names
LOGGER = "dragoman"
LEVELS = get_args(types.LoggingLevel)
SEVERITIES: Mapping[str, types.LoggingLevel] = {"info": "notice", "warning": "warning", "error": "error"}
WANTED = "dragoman.log_level"  # in the state of a connection


class ToldUpdate(NamedTuple):
    """An update in words; what is `logged` alone is no progress."""

    level: types.LoggingLevel
    text: str
    is_progress: bool = True


def told_of(update: s.SessionUpdate) -> ToldUpdate | None:
    """What a host is told of an update; None where that is nothing."""
    match update:
        case s.AgentMessageChunk(content=s.TextContent(text=text)):
            return ToldUpdate("info", text[:MAX_TOLD])
        case s.AgentThoughtChunk(content=s.TextContent(text=text)):
            return ToldUpdate("debug", text[:MAX_TOLD], is_progress=False)
        case s.ToolCall(title=title):
            return ToldUpdate("info", title[:MAX_TOLD])
        case s.ToolCallUpdate(status=status, title=title) if status is not None:
            level: types.LoggingLevel = "warning" if status == "failed" else "info"
            return ToldUpdate(level, f"{(title or 'tool')[:MAX_TOLD]}: {status}")
        case s.Plan(entries=entries):
            done = sum(entry.status == "completed" for entry in entries)
            return ToldUpdate("info", f"plan: {done} of {len(entries)} done")
        case s.Notice(severity=severity, title=title, description=description):
            words = f"{title}: {description}" if description else title
            return ToldUpdate(SEVERITIES.get(severity, "notice"), words[:MAX_TOLD])
    return None


class TurnReports:
    """Tells a host of each update: as progress of its request, and as log messages from the level it set."""

    def __init__(self, context: ServerRequestContext, session_id: str) -> None:
        self._context, self._session_id, self._count = context, session_id, 0
        self._levels = _levels(context)

    async def __call__(self, update: s.SessionUpdate) -> None:
        if (told := told_of(update)) is None:
            return
        if told.level in self._levels:
            data = {"sessionId": self._session_id, "text": told.text}
            params = types.LoggingMessageNotificationParams(level=told.level, logger=LOGGER, data=data)
            note = types.LoggingMessageNotification(params=params)
            await self._context.session.send_notification(note, self._context.request_id)
        if told.is_progress:
            self._count += 1
            await self._context.session.report_progress(float(self._count), None, told.text)


def _levels(context: ServerRequestContext) -> frozenset[types.LoggingLevel]:
    """The levels a host wants: set in the request, in the older MCP for its connection; none where it set none."""
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return allowed_log_levels(context.protocol_version, context.meta)
    # The library keeps nothing of a connection that handlers can reach otherwise.
    wanted = context.session._connection.state.get(WANTED)
    return frozenset(LEVELS[LEVELS.index(wanted) :]) if wanted else frozenset()


async def set_log_level(context: ServerRequestContext, params: types.SetLevelRequestParams) -> types.EmptyResult:
    """A host of the older MCP says from which level on it wants log messages."""
    context.session._connection.state[WANTED] = params.level
    return types.EmptyResult()


def result(turn: DrivenTurn, response: s.PromptResponse) -> types.CallToolResult:
    """A turn that is over: what the agent said, and the changes it showed as links."""
    text = "".join(message.text for message in turn.transcript.messages if message.speaker == "agent")
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}… ({len(text):,} characters)"
    shown = {
        content.path
        for call in turn.transcript.tool_calls
        for content in call.content
        if isinstance(content, s.Diff)
    }
    changes = {uri: change for uri, change in turn.conversation.changes.items() if change.path in shown}
    links = [
        types.ResourceLink(type="resource_link", uri=uri, name=change.path, mime_type="text/x-diff")
        for uri, change in changes.items()
    ]
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text), *links],
        structured_content={
            "sessionId": turn.conversation.session.id,
            "stopReason": response.stop_reason,
            "text": text,
            "toolCalls": calls_of(turn.transcript)[-MAX_CALLS:],
            "resources": list(changes),
        },
        is_error=response.stop_reason == "refusal",
    )


def failure(exc: Exception) -> types.CallToolResult:
    """A call that failed, in a sentence."""
    return types.CallToolResult(content=[types.TextContent(type="text", text=str(exc))], is_error=True)
