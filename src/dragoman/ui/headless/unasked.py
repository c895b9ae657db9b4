"""Whether an agent asks at all: some change files and run commands by themselves, and no preset holds for that."""

from ... import schema as s

ACTS = ("edit", "delete", "move", "execute")
OVER = ("completed", "failed")
MAX_OPEN = 1000  # calls that are not over


class Unasked:
    """Counts what an agent did by itself in a turn, until it asks for something for the first time."""

    def __init__(self) -> None:
        self._acting: dict[str, None] = {}
        self._done = 0
        self._has_asked = False

    def asked(self) -> None:
        """The agent asked for permission, or had the host do something."""
        self._has_asked = True

    def hear(self, update: object) -> None:
        """An update of the turn came."""
        if self._has_asked or not isinstance(update, s.ToolCall | s.ToolCallUpdate):
            return
        if update.kind in ACTS and len(self._acting) < MAX_OPEN:
            self._acting[update.tool_call_id] = None
        if update.status in OVER and update.tool_call_id in self._acting:
            del self._acting[update.tool_call_id]
            self._done += 1

    @property
    def remark(self) -> str | None:
        """What is to be said of an agent that has done something and asked for nothing."""
        if self._has_asked or not self._done:
            return None
        times = "once" if self._done == 1 else f"{self._done} times"
        return (
            f"this agent does not ask: it changed files or ran commands by itself {times}, "
            "which --permissions cannot prevent"
        )
