"""From ACP to unified messages: the agent's answers, updates and requests."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ... import schema as s
from ...errors import AgentExited, ConnectionClosed, RpcError
from .messages import UnifiedMessage, UnifiedMessageType, UnifiedRole

MOST_CALLS = 1000  # running tool calls whose content is remembered


def initialized(
    version: int,
    capabilities: s.AgentCapabilities,
    info: s.Implementation | None,
    auth_methods: Sequence[s.AuthMethod],
) -> UnifiedMessage:
    """`initialize` response: session_init, system."""
    metadata = {
        "protocolVersion": version,
        "agentCapabilities": _plain(capabilities),
        "agentInfo": _plain(info),
        "authMethods": _plain(auth_methods),
    }
    return UnifiedMessage(type="session_init", role="system", metadata=metadata)


def session_opened(
    session_id: str, modes: s.SessionModeState | None, config_options: Sequence[s.SessionConfigOption]
) -> UnifiedMessage:
    """`session/new` response: session_init, system."""
    metadata = {"sessionId": session_id, "modes": _plain(modes), "configOptions": _plain(config_options)}
    return UnifiedMessage(type="session_init", role="system", metadata=metadata)


def permission_requested(request_id: str, params: s.RequestPermissionRequest) -> UnifiedMessage:
    """`session/request_permission`: permission_request, system."""
    metadata = {
        "requestId": request_id,
        "sessionId": params.session_id,
        "toolCall": _plain(params.tool_call),
        "options": _plain(params.options),
    }
    return UnifiedMessage(type="permission_request", role="system", metadata=metadata)


def turn_ended(response: s.PromptResponse) -> UnifiedMessage:
    """`session/prompt` response: result, system."""
    metadata = {"stopReason": response.stop_reason, **_present(usage=response.usage, _meta=response.meta)}
    return UnifiedMessage(type="result", role="system", metadata=metadata)


def failed(type: UnifiedMessageType, error: Exception, **metadata: object) -> UnifiedMessage:
    """A request failed: result or status with the error."""
    return UnifiedMessage(
        type=type, role="system", metadata={**metadata, "is_error": True, "error": described(error)}
    )


def agent_gone(error: Exception | None) -> UnifiedMessage:
    """The agent has ended: status_change, system; always the last message."""
    metadata: dict[str, object] = {"status": "closed"}
    if isinstance(error, AgentExited):
        metadata = {"status": "exited", "exitStatus": error.status, "stderr": error.stderr}
    return UnifiedMessage(type="status_change", role="system", metadata=metadata)


def described(error: Exception) -> dict[str, object]:
    """An error in the form of `metadata`."""
    if isinstance(error, RpcError):
        return {"code": error.code, "message": error.message, **_present(data=error.data)}
    return {"message": error.reason if isinstance(error, ConnectionClosed) else str(error)}


class Updates:
    """Turns session updates into unified messages; remembers the content of running tool calls."""

    def __init__(self) -> None:
        self._shown: dict[str, tuple[dict[str, object], list[s.ContentBlock]]] = {}  # by the id of the call

    def told(self, update: s.SessionUpdate) -> Iterator[UnifiedMessage]:
        """The messages for an update: one, or two for a tool call whose first update is also its end."""
        match update:
            case s.AgentMessageChunk():
                yield _chunk(update, "assistant")
            case s.AgentThoughtChunk():
                yield _chunk(update, "assistant", thought=True)
            case s.UserMessageChunk():
                yield _chunk(update, "user")
            case s.ToolCall() | s.ToolCallUpdated():
                yield from self._tool(update)
            case s.Plan():
                yield _system("status_change", status="plan", entries=_plain(update.entries))
            case s.CurrentModeUpdate():
                yield _system("configuration_change", modeId=update.current_mode_id)
            case s.ConfigOptionUpdate():
                yield _system("configuration_change", configOptions=_plain(update.config_options))
            case s.UsageUpdate() | s.SessionInfoUpdate() | s.Notice() | s.CompactionUpdate() | s.PlanUpdate():
                plain = _plain(update)
                yield _system("status_change", status=plain.pop("sessionUpdate"), **plain)
            case _:
                yield _system("unknown", update=_plain(update))

    def _tool(self, update: s.ToolCall | s.ToolCallUpdated) -> Iterator[UnifiedMessage]:
        known, blocks = self._shown.pop(update.tool_call_id, ({}, []))
        plain = _plain(update)
        plain.pop("sessionUpdate")
        if isinstance(update, s.ToolCall):
            plain |= {"kind": update.kind, "status": update.status}  # even where they have the usual values
        new = [each.content for each in update.content or () if isinstance(each, s.Content)]
        known, blocks = {**known, **plain}, blocks if update.content is None else new
        is_over = known.get("status") in ("completed", "failed")
        if isinstance(update, s.ToolCall) or not is_over:
            yield UnifiedMessage(type="tool_progress", role="tool", content=new, metadata=plain)
        if not is_over:
            self._remember(update.tool_call_id, known, blocks)
            return
        failure = {"is_error": True} if known["status"] == "failed" else {}
        yield UnifiedMessage(type="tool_use_summary", role="tool", content=blocks, metadata={**known, **failure})

    def _remember(self, id: str, known: dict[str, object], blocks: list[s.ContentBlock]) -> None:
        while len(self._shown) >= MOST_CALLS:
            del self._shown[next(iter(self._shown))]
        self._shown[id] = known, blocks


def _chunk(
    update: s.AgentMessageChunk | s.AgentThoughtChunk | s.UserMessageChunk, role: UnifiedRole, **more: object
) -> UnifiedMessage:
    metadata = {**more, **_present(messageId=update.message_id, _meta=update.meta)}
    return UnifiedMessage(type="stream_event", role=role, content=[update.content], metadata=metadata)


def _system(type: UnifiedMessageType, **metadata: object) -> UnifiedMessage:
    return UnifiedMessage(type=type, role="system", metadata=metadata)


def _plain(value: object) -> Any:
    """A part of a message as JSON values."""
    if isinstance(value, s.Raw):
        return msgspec.json.decode(value)
    return msgspec.json.decode(msgspec.json.encode(value))


def _present(**given: object) -> dict[str, object]:
    return {name: _plain(value) for name, value in given.items() if value is not None}
