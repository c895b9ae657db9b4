"""The line at the top: the session, the agent, how full the context is, and the state."""

import time

from textual.content import Content
from textual.widgets import Static

from ... import schema as s
from ..model.conversation import ConversationModel
from .words import amount, clock, cost, line

FULL = 0.8  # the share of the context from which its colour changes


class HeaderLine(Static):
    """Shows the header; it is drawn again with every change and every second."""

    DEFAULT_CSS = "HeaderLine { height: 1; width: 1fr; padding: 0 1; background: $raised; }"

    def __init__(self, model: ConversationModel) -> None:
        super().__init__(Content(""))
        self._model = model

    def on_mount(self) -> None:
        self.set_interval(1.0, self.draw)

    def on_resize(self) -> None:
        self.draw()

    def draw(self) -> None:
        """Draw the current state."""
        columns = self.size.width - 2
        parts = [_state(self._model), _context(self._model), _agent(self._model)]
        right = Content("")
        for part in parts:  # parts without room are left out, except the state
            joined = Content.assemble(part, "   ", right) if right.plain and part.plain else part + right
            if part is parts[0] or joined.cell_length <= columns - 12:
                right = joined
        room = max(columns - right.cell_length - 2, 0)
        left = _place(self._model, room)
        gap = " " * max(columns - left.cell_length - right.cell_length, 1)
        self.update(Content.assemble(left, gap, right))


def _place(model: ConversationModel, room: int) -> Content:
    directory = model.cwd.rstrip("/").rpartition("/")[2] or model.cwd or "…"
    named = line(directory, max(room, 1), "bold")
    if not model.title or room <= len(directory) + 6:
        return named
    return Content.assemble(named, " ", line(f"▸ {model.title}", room - len(directory) - 1))


def option_name(option: s.SessionConfigSelect) -> str:
    """The name of an option's current value."""
    for entry in option.options:
        for each in entry.options if isinstance(entry, s.SessionConfigSelectGroup) else [entry]:
            if each.value == option.current_value:
                return each.name
    return option.current_value


def _agent(model: ConversationModel) -> Content:
    words = [model.agent]
    options = [each for each in model.transcript.config_options if isinstance(each, s.SessionConfigSelect)]
    words += [option_name(each) for each in options if each.category == "model"][:1]
    modes = [option_name(each) for each in options if each.category == "mode"][:1]
    if not modes and model.mode is not None:
        named = {mode.id: mode.name for mode in model.modes.available_modes} if model.modes else {}
        modes = [named.get(model.mode, model.mode)]
    return line(" · ".join(filter(None, [*words, *modes])), 60, "$quiet")


def _context(model: ConversationModel) -> Content:
    usage = model.transcript.usage
    if usage is None:
        return Content("")
    share = usage.used / usage.size if usage.size else 0
    words = f"ctx {share:.0%}" if usage.size else f"{amount(usage.used)} tokens"
    spent = f"  {cost(usage.cost)}" if usage.cost else ""
    return Content.assemble((words, "$warn" if share >= FULL else "$quiet"), (spent, "$quiet"))


def _state(model: ConversationModel) -> Content:
    state = model.state
    match state.kind:
        case "broken":
            return Content.styled("✗ not connected", "$bad")
        case "asking":
            return Content.styled(f"? {state.count} to decide" if state.count > 1 else "? asks you", "bold $warn")
        case "working":
            passed = clock(time.monotonic() - state.since) if state.since is not None else ""
            on = "" if state.on in ("", "writing") else f" {state.on}"
            return Content.assemble(("● ", "$moving"), line(f"working{on}", 32, "$moving"), f" {passed}")
    if model.link.kind == "starting":
        since = model.link.since
        passed = f" {clock(time.monotonic() - since)}" if since is not None else ""
        return Content.styled(f"○ starting{passed}", "$quiet")
    if model.link.kind == "reconnecting":
        return Content.styled("○ reconnecting", "$warn")
    return Content.styled("○ ready", "$quiet")
