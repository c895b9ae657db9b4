"""Detects agents that never ask: some change files and run commands themselves, beyond the reach of presets."""

from ... import schema as s

ACTS = ("edit", "delete", "move", "execute")
OVER = ("completed", "failed")
MAX_OPEN = 1000  # running calls


class Unasked:
    """Counts an agent's own changes and commands in a turn, until its first question."""

    def __init__(self) -> None:
        self._acting: dict[str, None] = {}
        self._done = 0
        self._has_asked = False

    def asked(self) -> None:
        """Note that the agent asked for permission or used the host."""
        self._has_asked = True

    def hear(self, update: object) -> None:
        """Note an update of the turn."""
        if self._has_asked or not isinstance(update, s.ToolCall | s.ToolCallUpdate):
            return
        if update.kind in ACTS and len(self._acting) < MAX_OPEN:
            self._acting[update.tool_call_id] = None
        if update.status in OVER and update.tool_call_id in self._acting:
            del self._acting[update.tool_call_id]
            self._done += 1

    @property
    def remark(self) -> str | None:
        """A warning about an agent that acted without any question; None otherwise."""
        if self._has_asked or not self._done:
            return None
        times = "once" if self._done == 1 else f"{self._done} times"
        return (
            f"this agent does not ask: it changed files or ran commands by itself {times}, "
            "which --permissions cannot prevent"
        )
