"""The panel beside the conversation: plan, files, terminals, waiting prompts, people."""

from collections.abc import Iterable

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from ... import schema as s
from ...transcript import ToolCallEntry
from ..model.conversation import ConversationModel
from .entries.diff import counts, rows_of
from .words import COLOURS, SIGNS, line, lines, short

MOST = 12  # lines of a section


class SidePanel(VerticalScroll):
    """Shows the sections, each with a figure at the right."""

    DEFAULT_CSS = """
    SidePanel { width: 30; height: 1fr; padding: 0 1; border-left: vkey $line; scrollbar-size-vertical: 1; }
    """
    can_focus = False

    def __init__(self, model: ConversationModel) -> None:
        super().__init__()
        self._model = model
        self._changed = FileCounts()
        self._words = Static(Content(""))

    def compose(self) -> "list[Static]":
        return [self._words]

    def on_resize(self) -> None:
        self.draw()

    def draw(self) -> None:
        """Draw all sections again."""
        columns = max(self.size.width - 4, 20)
        model, parts = self._model, list[Content]()
        for title, figure, rows in (
            _plan(model, columns),
            self._changed.section(model, columns),
            _terminals(model, columns),
            _queue(model, columns),
            _people(model, columns),
        ):
            if rows:
                gap = max(columns - len(title) - len(figure), 1)
                head = Content.assemble((title, "bold"), " " * gap, (figure, "$quiet"))
                more = [Content.styled(f"  … {len(rows) - MOST} more", "$quiet")] if len(rows) > MOST else []
                parts += [lines([head, *rows[:MOST], *more]), Content("")]
        self._words.update(lines(parts))

    def summary(self) -> Content:
        """The sections in one line, for a screen too narrow for the panel."""
        model = self._model
        found = []
        for title, figure, rows in (_plan(model, 20), self._changed.section(model, 20), _queue(model, 20)):
            if rows:
                found.append(f"{title.lower()} {figure}")
        running = sum(not view.is_over for view in model.terminals.views.values())
        found += [f"{running} running"] if running else []
        return Content.styled(" · ".join(found), "$quiet")


Section = tuple[str, str, list[Content]]


def steps_of(model: ConversationModel) -> list[s.PlanEntry]:
    """The steps of the plan that changed most recently."""
    match model.transcript.plan.plan if model.transcript.plan else None:
        case s.Plan(entries=entries) | s.PlanItems(entries=entries):
            return list(entries)
    return []


def _plan(model: ConversationModel, columns: int) -> Section:
    steps = steps_of(model)
    match model.transcript.plan.plan if model.transcript.plan else None:
        case s.PlanMarkdown(content=content):
            return "Plan", "", [line(each, columns) for each in content.splitlines() if each.strip()]
        case s.PlanFile(uri=uri):
            return "Plan", "", [line(uri, columns)]
    done = sum(step.status == "completed" for step in steps)
    return "Plan", f"{done}/{len(steps)}", [_step(step, columns) for step in _around(steps)]


def _around(steps: list[s.PlanEntry]) -> Iterable[s.PlanEntry]:
    """The steps, starting shortly before the one in progress if there are many."""
    at = next((place for place, step in enumerate(steps) if step.status == "in_progress"), 0)
    start = max(min(at - 2, len(steps) - MOST), 0)
    return steps[start:]


def _step(step: s.PlanEntry, columns: int) -> Content:
    sign = "▸" if step.status == "in_progress" else SIGNS[step.status]
    style = "$quiet" if step.status == "completed" else ""
    return Content.assemble((f"{sign} ", COLOURS[step.status]), line(step.content, columns - 2, style))


class FileCounts:
    """Counts the changed lines of each file, once for each reported change."""

    def __init__(self) -> None:
        self._counted: dict[tuple[str, int], tuple[int, int]] = {}

    def section(self, model: ConversationModel, columns: int) -> Section:
        """The changed files, with the numbers of added and removed lines."""
        files = dict[str, tuple[int, int]]()
        for call in model.transcript.tool_calls:
            for at, content in enumerate(call.content):
                if isinstance(content, s.Diff) and call.status in ("completed", "in_progress"):
                    come, gone = self._count(call, at, content)
                    before = files.get(content.path, (0, 0))
                    files[content.path] = before[0] + come, before[1] + gone
        return "Files", str(len(files)), [_file(path, *told, model.cwd, columns) for path, told in files.items()]

    def _count(self, call: ToolCallEntry, at: int, diff: s.Diff) -> tuple[int, int]:
        key = f"{call.id} {at}", hash((diff.old_text, diff.new_text))
        if key not in self._counted:
            self._counted[key] = counts(rows_of(diff, 0))
        return self._counted[key]


def _file(path: str, come: int, gone: int, cwd: str, columns: int) -> Content:
    figures = f"+{come} \u2212{gone}"
    room = columns - len(figures) - 3
    name = short(path, cwd)
    name = name if len(name) <= room else f"…{name[1 - room :]}"
    told = line(name, room)
    gap = " " * max(columns - 2 - told.cell_length - len(figures), 1)
    return Content.assemble(("✎ ", "$moving"), told, gap, (f"+{come} ", "$good"), (f"\u2212{gone}", "$bad"))


def _terminals(model: ConversationModel, columns: int) -> Section:
    views = list(model.terminals.views.values())[-MOST:]
    rows = []
    for view in views:
        status = "failed" if view.is_failed else "completed" if view.is_over else "in_progress"
        command = line(view.command.partition("\n")[0], columns - 2)
        rows.append(Content.assemble((f"{SIGNS[status]} ", COLOURS[status]), command))
    return "Terminals", str(len(model.terminals.views)), rows


def _queue(model: ConversationModel, columns: int) -> Section:
    rows = []
    for number, waiting in enumerate(model.queue.values(), 1):
        words = " ".join(block.text for block in waiting.prompt if isinstance(block, s.TextContent))
        who = f"{waiting.author}: " if waiting.author else ""
        rows.append(Content.assemble((f"{number} ", "$quiet"), line(f"{who}{words}", columns - 2)))
    return "Queue", str(len(rows)), rows


def _people(model: ConversationModel, columns: int) -> Section:
    rows = [
        Content.assemble(line(person.name, columns - 10), "  ", line(person.role, 8, "$quiet"))
        for person in model.people
    ]
    return "People", str(len(rows)), rows
