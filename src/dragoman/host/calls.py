"""The agent's updates about running tool calls, which complete its permission requests.

Some agents send little more than the id of a call, since an update has described it before.
"""

import msgspec

from .. import schema as s

MAX_CALLS = 64  # calls of one session
MAX_BYTES = 4 * 1024 * 1024  # bytes of the messages that described them
OVER = ("completed", "failed")


class OpenToolCalls:
    """The running calls of one session; if there are too many, the oldest is forgotten."""

    def __init__(self) -> None:
        self._told: dict[str, tuple[s.ToolCallUpdate, int]] = {}

    def hear(self, update: s.ToolCall | s.ToolCallUpdate, size: int) -> None:
        """Note an update of a call, from a message of this size."""
        before, known = self._told.pop(update.tool_call_id, (None, 0))
        if update.status in OVER:
            return
        told = _as_update(update)
        self._told[update.tool_call_id] = (_completed(told, before) if before else told, known + size)
        while len(self._told) > MAX_CALLS or sum(size for _, size in self._told.values()) > MAX_BYTES:
            del self._told[next(iter(self._told))]

    def completed(self, params: s.RequestPermissionRequest) -> s.RequestPermissionRequest:
        """A permission request, completed from earlier updates of its call."""
        before, _ = self._told.get(params.tool_call.tool_call_id, (None, 0))
        if before is None:
            return params
        return msgspec.structs.replace(params, tool_call=_completed(params.tool_call, before))


def _as_update(update: s.ToolCall | s.ToolCallUpdate) -> s.ToolCallUpdate:
    return s.ToolCallUpdate(**{name: getattr(update, name) for name in s.ToolCallUpdate.__struct_fields__})


def _completed(update: s.ToolCallUpdate, before: s.ToolCallUpdate) -> s.ToolCallUpdate:
    """An update whose empty fields are filled from the previous one."""
    silent = (None, s.UNSET)
    fields = s.ToolCallUpdate.__struct_fields__
    return msgspec.structs.replace(
        update, **{name: getattr(before, name) for name in fields if getattr(update, name) in silent}
    )
