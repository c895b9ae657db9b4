"""Terminals that an agent runs itself, which agents report in `_meta` of tool call updates.

`terminal_info` begins one, `terminal_output` and `terminal_output_delta` carry its output, `terminal_exit` ends it.
No version of the protocol has these; several agents send them.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from ... import schema as s

MAX_ID = 200  # characters


class Printed(Struct, frozen=True):
    """A report about a terminal: its start, its output or its end."""

    id: str
    text: str = ""
    ended: s.TerminalExitStatus | None = None


def told_of(update: s.ToolCall | s.ToolCallUpdate) -> Iterator[Printed]:
    """The reports about the agent's own terminals in a tool call update, in order."""
    meta = update.meta
    if not isinstance(meta, Mapping):
        return
    for name in ("terminal_info", "terminal_output", "terminal_output_delta", "terminal_exit"):
        told = meta.get(name)
        if isinstance(told, Mapping) and isinstance(id := told.get("terminal_id"), str):
            text = told.get("data") if name.startswith("terminal_output") else ""
            how = _ended(told) if name == "terminal_exit" else None
            yield Printed(f"{update.tool_call_id} {id}"[:MAX_ID], text if isinstance(text, str) else "", how)


def _ended(told: Mapping[str, object]) -> s.TerminalExitStatus:
    code, signal = told.get("exit_code"), told.get("signal")
    return s.TerminalExitStatus(
        exit_code=code if isinstance(code, int) and code >= 0 else None,
        signal=signal if isinstance(signal, str) else None,
    )
