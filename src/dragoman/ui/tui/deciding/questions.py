"""Open questions, shown instead of the input: exactly what the user decides, and a key for each answer."""

import time
from collections.abc import Sequence

from textual import events
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from .... import schema as s
from ....transcript import ToolCallEntry
from ...headless.keys import keys_for
from ...model.conversation import ConversationModel
from ...model.intents import AnswerQuestion
from ...model.parts import PendingQuestion, QuestionChoice
from ..entries.diff import DiffRow, DiffView, Layout, counted, rows_of, rows_of_unified
from ..words import flowing, line, lines, short, shown
from .forms import FormFields

SHARE = 0.65  # the largest share of the screen that a question takes
INERT = 0.5  # seconds after a new question or a typed key in which no key answers


class QuestionPanel(Vertical, can_focus=True):
    """Shows one open question and how many more wait; an answer that allows something never has the focus."""

    DEFAULT_CSS = """
    QuestionPanel { height: auto; width: 1fr; border-top: solid $warn; padding: 0 1; }
    QuestionPanel { display: none; }
    QuestionPanel.asking { display: block; }
    QuestionPanel > .title { width: 1fr; height: auto; }
    QuestionPanel > VerticalScroll { height: auto; width: 1fr; padding-left: 2; }
    QuestionPanel > .choices { width: 1fr; height: auto; padding-left: 2; margin-top: 1; }
    """
    BINDINGS = [
        Binding("left_square_bracket,left", "turn_to(-1)", "question before", show=False),
        Binding("right_square_bracket,right", "turn_to(1)", "next question", show=False),
        Binding("up", "scroll_detail(-1)", "up", show=False),
        Binding("down", "scroll_detail(1)", "down", show=False),
    ]

    class QuestionAnswered(Message):
        """The user answered a question."""

        def __init__(self, intent: AnswerQuestion, url: str = "") -> None:
            super().__init__()
            self.intent, self.url = intent, url

    class TypedAhead(Message):
        """The user typed a key that was meant for the input."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, model: ConversationModel) -> None:
        super().__init__()
        self._model = model
        self._title = Static(Content(""), classes="title")
        self._scroll = VerticalScroll(can_focus=False)
        self._choices = Static(Content(""), classes="choices")
        self._current = ""  # the id of the question on the screen
        self._drawn: PendingQuestion | None = None
        self._keys: dict[str, QuestionChoice] = {}
        self.quiet_since = 0.0  # the time of the last new question or typed key
        self.layout_kind: Layout = "auto"

    def compose(self) -> list[Widget]:
        return [self._title, self._scroll, self._choices]

    @property
    def question(self) -> PendingQuestion | None:
        """The question on the screen."""
        return self._model.questions.get(self._current)

    def draw(self) -> None:
        """Show the current question, or the first open one."""
        questions = list(self._model.questions.values())
        if self.question is None:
            self._current = questions[0].id if questions else ""
        question = self.question
        self.set_class(question is not None, "asking")
        self._fit()
        if question is None:
            self._drawn = None
            return
        if question != self._drawn:
            self._drawn, self.quiet_since = question, time.monotonic()
            self._keys = keys_for(question.choices)
            self._scroll.remove_children()
            self._scroll.mount_all(self._detail(question))
            self._scroll.scroll_home(animate=False)
        self._draw_head(question, questions)

    def _draw_head(self, question: PendingQuestion, questions: Sequence[PendingQuestion]) -> None:
        at = next(place for place, each in enumerate(questions) if each.id == question.id)
        waiting = f"  {at + 1} of {len(questions)}  ←/→" if len(questions) > 1 else ""
        claim = "  the agent's claim, not verifiable" if question.is_claim and question.kind == "permission" else ""
        title = line(question.title, style="bold $warn")
        self._title.update(Content.assemble(("? ", "bold $warn"), title, (waiting, "$quiet"), (claim, "$warn")))
        cells = [
            Content.assemble((key, "bold $good" if choice.allows else "bold $bad"), " ", line(choice.label, 60))
            for key, choice in self._keys.items()
        ]
        if question.kind == "form":
            cells = [
                Content.assemble(("^S", "bold $good"), " send"),
                Content.assemble(("^D", "bold $bad"), " decline"),
            ]
        cells.append(Content.styled("esc stop the turn", "$quiet"))
        self._choices.update(flowing(cells, max(self.size.width - 6, 20)))

    def _detail(self, question: PendingQuestion) -> list[Widget]:
        """Exactly what the user decides: the text, the warnings, and the change of every file."""
        cwd = self._model.cwd
        parts = list[Widget]()
        if question.text:
            parts.append(Static(lines(shown(each) for each in question.text.split("\n"))))
        if question.url:
            parts.append(Static(shown(question.url, "bold $moving")))
        parts += [Static(shown(f"! {warning}", "$warn")) for warning in question.warnings]
        if diffs := self._diffs(question):
            for diff in diffs:
                rows = rows_of(diff)
                new = " (new file)" if diff.old_text is None else ""
                head = Content.assemble(
                    line(short(diff.path, cwd), style="bold"), (new, "$quiet"), "  ", counted(rows)
                )
                parts += [Static(head), DiffView(rows, self.layout_kind)]
        elif question.detail:
            detail: list[DiffRow] = rows_of_unified(question.detail)
            parts.append(DiffView(detail, self.layout_kind))
        if question.form is not None:
            parts.append(FormFields(question.form))
        return parts

    def _diffs(self, question: PendingQuestion) -> list[s.Diff]:
        """The changes of the tool call behind a claim; for an operation, the host provides the change itself."""
        if not question.is_claim or not question.tool_call_id:
            return []
        for call in self._model.transcript.tool_calls:
            if isinstance(call, ToolCallEntry) and call.id == question.tool_call_id:
                return [content for content in call.content if isinstance(content, s.Diff)]
        return []

    def _fit(self) -> None:
        """Limit the height of the details, so that the transcript and the answers stay visible."""
        self._scroll.styles.max_height = max(int(self.app.size.height * SHARE) - 5, 3)

    def on_resize(self) -> None:
        self._fit()
        if (question := self.question) is not None:
            self._draw_head(question, list(self._model.questions.values()))

    # Answering

    @property
    def _is_inert(self) -> bool:
        return time.monotonic() - self.quiet_since < INERT

    def on_key(self, event: events.Key) -> None:
        question = self.question
        if question is None or question.form is not None:  # a form's fields take the keys; no key answers it
            return
        was_inert, self.quiet_since = self._is_inert, time.monotonic()
        if event.key in ("left", "right", "up", "down", "pageup", "pagedown", "escape", "tab", "shift+tab"):
            return
        if was_inert:
            if event.is_printable and event.character:
                event.stop()
                self.post_message(self.TypedAhead(event.character))
            return
        if choice := self._keys.get(event.character or ""):
            event.stop()
            self.answer(choice)

    def answer(self, choice: QuestionChoice) -> None:
        """Answer the question on the screen."""
        if (question := self.question) is not None:
            url = question.url if choice.allows else ""
            self.post_message(self.QuestionAnswered(AnswerQuestion(id=question.id, choice=choice.id), url))

    def on_form_fields_filled(self, message: FormFields.Filled) -> None:
        message.stop()
        if (question := self.question) is not None:
            self.post_message(self.QuestionAnswered(AnswerQuestion(id=question.id, content=message.content)))

    def action_turn_to(self, step: int) -> None:
        """Show the next or the previous open question."""
        ids = list(self._model.questions)
        if self._current in ids:
            self._current = ids[(ids.index(self._current) + step) % len(ids)]
            self.draw()

    def action_scroll_detail(self, rows: int) -> None:
        """Scroll the details of the question."""
        self._scroll.scroll_relative(y=rows, animate=False, immediate=True)

    def focus_question(self) -> None:
        """Focus a form's first field, or else the panel; keys do not answer at first, as with a new question."""
        self.quiet_since = time.monotonic()
        fields = self.query(FormFields)
        if fields:
            fields.first().focus_first()
        else:
            self.focus()
