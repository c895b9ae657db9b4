"""One session as a person sees it: the transcript, open questions, waiting prompts and the state."""

from collections.abc import Iterable, Sequence

from msgspec import structs

from ... import schema as s
from ...transcript import UNFINISHED, Entry, Message, ToolCallEntry, Transcript
from . import events as e
from .agent_terminals import told_of
from .parts import (
    ConversationState,
    Link,
    ModelChange,
    ModelPart,
    OwnCommand,
    Participant,
    PendingQuestion,
    SettledQuestion,
    ShownEntry,
    Span,
    WaitingPrompt,
)
from .terminals import TerminalTable, TerminalView

NOTHING = ModelChange()


class ConversationModel:
    """A session folded from its events; `apply` never raises for anything that can be decoded.

    `entries` are the entries of the transcript with the decisions among them; each keeps its position and has a
    `span`.
    """

    def __init__(self, happened: "Iterable[e.ModelEvent]" = ()) -> None:
        self.id = self.cwd = self.agent = ""
        self.modes: s.SessionModeState | None = None
        self.transcript = Transcript()
        self.entries: list[ShownEntry] = []
        self.questions: dict[str, PendingQuestion] = {}  # the open questions, in the order in which they were asked
        self.queue: dict[str, WaitingPrompt] = {}  # waiting prompts, in the order in which they will be sent
        self.terminals = TerminalTable()
        self.people: Sequence[Participant] = ()
        self.link = Link()
        self.turns: dict[str, float | None] = {}  # unanswered prompts, and when they were sent
        self._spans: list[Span] = []  # spans of the entries, in their order
        self._places: dict[int, int] = {}  # positions of the entries, by their identity
        self._seen = 0  # how many entries of the transcript have a position
        self._own: dict[str, OwnCommand] = {}  # the user's commands, by their terminals
        for event in happened:
            self.apply(event)

    @property
    def state(self) -> ConversationState:
        """The current state, in one value."""
        if self.link.kind == "lost":
            return ConversationState(kind="broken", since=self.link.since, why=self.link.why)
        if self.questions:
            return ConversationState(kind="asking", count=len(self.questions))
        if self.turns:
            since = next(iter(self.turns.values()))
            return ConversationState(kind="working", since=since, on=self._current_work())
        return ConversationState()

    @property
    def title(self) -> str | None:
        """The title of the session."""
        return self.transcript.title

    @property
    def mode(self) -> str | None:
        """The mode the session is in."""
        told = self.transcript.mode
        return told if told is not None or self.modes is None else self.modes.current_mode_id

    def span(self, entry: ShownEntry) -> Span:
        """The times of an entry's first and last update."""
        return self._spans[self._places[id(entry)]]

    def place(self, entry: ShownEntry) -> int:
        """The position of an entry."""
        return self._places[id(entry)]

    def apply(self, event: "e.ModelEvent") -> ModelChange:
        """Apply an event; returns the changes."""
        match event:
            case e.UpdateTold(update=update, at=at):
                return self._update(update, at)
            case e.SessionBegan():
                return self._begin(event)
            case e.PromptGiven() | e.TurnOver() | e.PromptWaits() | e.PromptDropped():
                return self._prompt(event)
            case e.QuestionPut() | e.QuestionOver() | e.DecisionTold():
                return self._question(event)
            case e.NoticeTold(text=text, severity=severity, at=at):
                return self._add(s.Notice(severity=severity, title=text or " "), at)
            case e.PeopleTold(people=people):
                self.people = people
                return ModelChange(frozenset({"people"}))
            case e.LinkTold(link=link):
                self.link = link
                return ModelChange(frozenset({"link", "state"}))
        return self._terminal(event)

    def _begin(self, event: e.SessionBegan) -> ModelChange:
        """Start over, keeping only the prompts that the user has not sent yet."""
        self.id, self.cwd, self.agent, self.modes = event.id, event.cwd, event.agent, event.modes
        self.questions, self.turns, self.people = {}, {}, ()
        if not event.is_continued:
            self.transcript, self.terminals, self._own = Transcript(), TerminalTable(), {}
            self.entries, self._spans, self._places, self._seen = [], [], {}, 0
        self.transcript.config_options, self.transcript.title = event.config_options, event.title
        self.link = Link(kind="connected", since=event.at)
        parts: frozenset[ModelPart] = frozenset(
            {"transcript", "questions", "terminals", "options", "people", "link", "state"}
        )
        return ModelChange(parts, is_new=not event.is_continued)

    def _update(self, update: s.SessionUpdate, at: float | None) -> ModelChange:
        touched = self.transcript.apply(update)
        parts: set[ModelPart] = {"transcript"} if touched else {"options"}
        terminals = list[str]()
        if isinstance(update, s.ToolCall | s.ToolCallUpdate):
            command = next((each.title for each in touched if isinstance(each, ToolCallEntry)), "")
            terminals = [each.id for each in told_of(update) if self.terminals.told(each, command)]
            parts |= {"terminals"} if terminals else set()
        if self.turns:
            parts.add("state")
        return ModelChange(frozenset(parts), self._placed(touched, at), terminals)

    def _prompt(self, event: "e.PromptGiven | e.TurnOver | e.PromptWaits | e.PromptDropped") -> ModelChange:
        match event:
            case e.PromptWaits(prompt=prompt):
                self.queue[prompt.id] = prompt
                return ModelChange(frozenset({"queue"}))
            case e.PromptDropped(id=id):
                return ModelChange(frozenset({"queue"})) if self.queue.pop(id, None) else NOTHING
            case e.PromptGiven(id=id, prompt=blocks, at=at):
                if id in self.turns:
                    return NOTHING
                self.turns[id] = at
                self.queue.pop(id, None)
                touched = self._placed((self.transcript.said(blocks),), at)
                return ModelChange(frozenset({"transcript", "queue", "state"}), touched)
        if event.id not in self.turns:
            return NOTHING
        del self.turns[event.id]
        ended = self.transcript.apply(event.response) if event.response else self.transcript.fail(event.error)
        return ModelChange(frozenset({"transcript", "state"}), self._placed(ended, event.at))

    def _question(self, event: "e.QuestionPut | e.QuestionOver | e.DecisionTold") -> ModelChange:
        match event:
            case e.QuestionPut(question=question):
                self.questions[question.id] = question
                return ModelChange(frozenset({"questions", "state"}))
            case e.DecisionTold(title=title, allowed=allowed, why=why, tool_call_id=call):
                return self._add(
                    SettledQuestion(title=title, allowed=allowed, why=why, tool_call_id=call), event.at
                )
        if (over := self.questions.pop(event.id, None)) is None:
            return NOTHING
        settled = SettledQuestion(
            title=over.title,
            text=over.text,
            answer=event.answer,
            allowed=event.allowed,
            why=event.why,
            tool_call_id=over.tool_call_id,
        )
        return self._add(settled, event.at, "questions", "state")

    def _terminal(self, event: e.ModelEvent) -> ModelChange:
        match event:
            case e.TerminalBegan(id=id, command=command, is_mine=is_mine, columns=columns, rows=rows):
                view = TerminalView(id, command, is_mine=is_mine, columns=columns, rows=rows)
                has_changed = self.terminals.begin(view)
                if has_changed and is_mine:
                    self._own[id] = OwnCommand(terminal_id=id, command=view.command)
                    return structs.replace(self._add(self._own[id], event.at, "terminals"), terminals=(id,))
            case e.TerminalPrinted(id=id, text=text):
                has_changed = self.terminals.print(id, text)
            case e.TerminalSized(id=id, columns=columns, rows=rows):
                has_changed = self.terminals.size(id, columns, rows)
            case e.TerminalOver(id=id, status=status):
                has_changed = self.terminals.end(id, status)
                if has_changed and (own := self._own.pop(id, None)) is not None:
                    self.span(own).told(event.at)
                    parts: frozenset[ModelPart] = frozenset({"terminals", "transcript"})
                    return ModelChange(parts, (own,), (id,))
            case _:
                return NOTHING
        return ModelChange(frozenset({"terminals"}), terminals=(id,)) if has_changed else NOTHING

    def _add(self, entry: ShownEntry, at: float | None, *parts: ModelPart) -> ModelChange:
        """Add an entry that the agent did not send."""
        self._place(entry, at)
        return ModelChange(frozenset({"transcript", *parts}), (entry,))

    def _placed(self, touched: Sequence[Entry], at: float | None) -> Sequence[ShownEntry]:
        """Give every new entry of the transcript a position, and note the time of the changed ones."""
        for entry in self.transcript.entries[self._seen :]:
            self._place(entry, None)
        self._seen = len(self.transcript.entries)
        for entry in touched:
            self.span(entry).told(at)
        return touched

    def _place(self, entry: ShownEntry, at: float | None) -> None:
        self._places[id(entry)] = len(self.entries)
        self.entries.append(entry)
        self._spans.append(Span(at, at))

    def _current_work(self) -> str:
        """The agent's current activity, as far as it reports it."""
        for entry in reversed(self.transcript.entries):
            match entry:
                case ToolCallEntry(status=status) if status in UNFINISHED:
                    return entry.title or entry.kind
                case Message(speaker="thought"):
                    return "thinking"
                case Message(speaker="agent"):
                    return "writing"
                case Message():
                    return ""
        return ""
