"""One conversation on the screen: header, transcript, side panel, and the question or the input below."""

import asyncio
import base64
import os
from collections.abc import Sequence

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Key
from textual.message import Message
from textual.widgets import Static

from ... import schema as s
from ...errors import Error
from ...foundation.owning import own
from ..driving.driver import ConversationDriver, DriveOptions
from ..headless.attachments import attached
from ..model import intents as i
from ..model.parts import ModelChange, ModelPart
from .deciding.questions import QuestionPanel
from .entries.attachments import AttachmentLine
from .entries.command import CommandCard
from .entries.folding import Folded
from .following import FollowView
from .header import HeaderLine
from .side import SidePanel
from .transcript import TranscriptView
from .words import line, shown
from .writing.completing import Completions
from .writing.composer import PromptEditor
from .writing.history import PromptHistory

PROMPT = "\u276f "
TAKEN = "jk"  # letters that scroll the transcript
MAX_OUTPUT = 64 * 1024  # characters attached of a command's output
PAGE = 10  # lines that a page key scrolls a question
NARROW = 100  # columns below which the side panel is hidden
SOON = 1 / 30  # seconds in which changes are collected before they are painted


class ConversationPane(Vertical):
    """Draws a conversation and handles the user's keys; the driver handles the protocol."""

    DEFAULT_CSS = """
    ConversationPane { height: 1fr; width: 1fr; }
    ConversationPane > Horizontal { height: 1fr; }
    ConversationPane > .status { height: 1; padding: 0 1; display: none; }
    ConversationPane.narrow SidePanel { display: none; }
    ConversationPane.narrow > .status.full { display: block; }
    ConversationPane.panel SidePanel { display: block; }
    ConversationPane > .link { height: auto; padding: 0 1; display: none; }
    ConversationPane > .link.full { display: block; }
    ConversationPane > .input { height: auto; border-top: solid $line; }
    ConversationPane > .input > Static { width: 2; color: $moving; text-style: bold; }
    ConversationPane.asks > .input { display: none; }
    ConversationPane > .chips { height: auto; padding: 0 2; color: $moving; display: none; }
    ConversationPane > .chips.full { display: block; }
    ConversationPane > .hint { height: 1; padding: 0 2; color: $quiet; }
    """
    BINDINGS = [
        Binding("escape", "stop", "stop", show=False),
        Binding("ctrl+up", "go_fold(-1)", "entry above", show=False, priority=True),
        Binding("ctrl+down", "go_fold(1)", "entry below", show=False, priority=True),
        Binding("pageup", "page(-1)", "up", show=False, priority=True),
        Binding("pagedown", "page(1)", "down", show=False, priority=True),
    ]

    class StateChanged(Message):
        """The state of the conversation changed."""

        def __init__(self, pane: "ConversationPane") -> None:
            super().__init__()
            self.pane = pane

    def __init__(self, options: DriveOptions, history: PromptHistory) -> None:
        super().__init__()
        self.driver = ConversationDriver(options, self._changed)
        self.model = self.driver.model
        self.header = HeaderLine(self.model)
        self.transcript = TranscriptView(self.model)
        self.side = SidePanel(self.model)
        self.questions = QuestionPanel(self.model)
        self.following = FollowView(self.model)
        self.composer = PromptEditor(history)
        self.completions = Completions(self.driver, self.composer)
        self.attached: list[s.ContentBlock] = []
        self.last_kind = "idle"  # the kind of state at the last `StateChanged`
        self.kept = 0  # the number of entries whose text is stored for the list of sessions
        self.has_news = False  # something happened that the user has not seen
        self._status = Static(Content(""), classes="status")
        self._link = Static(Content(""), classes="link")
        self._chips = Static(Content(""), classes="chips")
        self._hint = Static(Content(""), classes="hint")
        self._parts: set[ModelPart] = set()
        self._entries: dict[int, object] = {}
        self._terminals: dict[str, None] = {}
        self._is_anew = self._is_due = False
        self._conversation: asyncio.Task[None] | None = None

    def compose(self) -> ComposeResult:
        yield self.header
        with Horizontal():
            yield self.transcript
            yield self.side
        yield self.following
        yield self._status
        yield self._link
        yield self.questions
        yield self.completions
        yield self._chips
        with Horizontal(classes="input"):
            yield Static(Content(PROMPT))
            yield self.composer
        yield self._hint

    def on_mount(self) -> None:
        self.begin()
        self._draw_hint()

    def begin(self) -> None:
        """Connect to the agent, for the first time or again."""
        self._conversation = own(self.driver.run(), "conversation")

    async def leave(self) -> None:
        """Disconnect from the agent, and wait until that is done."""
        if self._conversation is not None:
            self._conversation.cancel()
            await asyncio.wait([self._conversation])

    def on_resize(self) -> None:
        self.set_class(self.size.width < NARROW, "narrow")
        self._mark_changed(ModelChange(frozenset({"queue"})))

    def focus_input(self) -> None:
        """Focus the open question, or else the input."""
        if self.model.questions:
            self.questions.focus_question()
        else:
            self.composer.focus()

    # Painting

    def _changed(self, change: ModelChange) -> None:
        self._mark_changed(change)

    def _mark_changed(self, change: ModelChange) -> None:
        self._parts |= change.parts
        self._is_anew = self._is_anew or change.is_new
        self._entries.update((id(entry), entry) for entry in change.entries)
        self._terminals.update(dict.fromkeys(change.terminals))
        if not self._is_due and self.is_mounted:
            self._is_due = True
            self.set_timer(SOON, self._paint)

    @property
    def is_behind(self) -> bool:
        """Whether changes are waiting to be painted."""
        return self._is_due

    def _paint(self) -> None:
        """Paint the changes since the last call."""
        self._is_due = False
        parts, self._parts = self._parts, set()
        entries, self._entries = list(self._entries.values()), {}
        terminals, self._terminals = list(self._terminals), {}
        if self._is_anew:
            self._is_anew = False
            self.transcript.begin_anew()
        elif entries or terminals:
            self.transcript.paint(entries, terminals)  # type: ignore[arg-type]
        if parts & {"options", "state", "link"}:
            self.header.draw()
        if parts & {"transcript", "queue", "terminals", "people"}:
            self.side.draw()
            summary = self.side.summary()
            self._status.update(summary)
            self._status.set_class(bool(summary.plain), "full")
            self.following.draw()
        if parts & {"questions", "link"}:
            self._show_questions()
            self._draw_link()
        if "options" in parts:
            self.completions.refresh_commands()
        if parts & {"state", "queue", "options"}:
            self._draw_hint()
            self.post_message(self.StateChanged(self))

    def _show_questions(self) -> None:
        was_asking, asks = self.has_class("asks"), bool(self.model.questions)
        self.questions.draw()
        self.set_class(asks, "asks")
        if was_asking != asks and self.is_front:
            self.focus_input()

    @property
    def is_front(self) -> bool:
        """Whether the user sees this conversation."""
        return bool(self.display) and self.screen.is_current

    def _draw_link(self) -> None:
        """Show why the agent is not connected, and what happens next."""
        link = self.model.link
        self._link.set_class(link.kind in ("reconnecting", "lost"), "full")
        if link.kind == "reconnecting":
            words = Content.assemble(
                ("○ not connected: ", "$warn"), shown(link.why or "the connection broke", "$warn")
            )
            self._link.update(words + Content.styled("\n  it is tried again; ^R tries at once", "$quiet"))
        elif link.kind == "lost":
            words = Content.assemble(("✗ ", "$bad"), shown(link.why or "the agent is gone", "$bad"))
            self._link.update(words)

    def _draw_hint(self) -> None:
        state = self.model.state
        if state.kind == "broken":
            words = "^R start the agent again   ^Q quit"
        elif self.model.link.kind == "reconnecting":
            words = "⏎ queue   ^R try at once   ^Q quit"
        elif self.driver.is_held and self.model.queue:
            words = f"⏎ send what waits ({len(self.model.queue)})   F7 queue   ^P palette   F1 help"
        elif self.model.turns:
            steer = "   ⌥⏎ steer" if self.driver.takes_steering else ""
            words = f"⏎ queue{steer}   esc stop   ^O model   F7 queue   ^P palette   F1 help"
        else:
            words = "⏎ send   @ file   / command   ^O model   F3 sessions   ^P palette   F1 help"
        self._hint.update(Content(words).truncate(max(self.size.width - 4, 20), ellipsis=True))

    # Keys

    def action_stop(self) -> None:
        """Stop the running turn, if any, and focus the input."""
        if self.model.turns:
            self.driver.carry_out(i.CancelTurn())
        self.focus_input()

    def on_key(self, event: Key) -> None:
        """Insert a letter that no widget handled into the input."""
        is_letter = event.is_printable and event.character != " "
        if is_letter and (event.character or "") not in TAKEN and not self.has_class("asks"):
            event.stop()
            self.composer.focus()
            self.composer.insert(event.character or "")

    def action_go_fold(self, step: int) -> None:
        """Focus the entry above or below that can be opened."""
        found = self.transcript.foldable()
        focused = self.screen.focused
        is_inside = isinstance(focused, Folded | AttachmentLine) and focused in found
        at = found.index(focused) if is_inside else len(found)  # type: ignore[arg-type]
        if 0 <= at + step < len(found):
            found[at + step].focus()
            found[at + step].scroll_visible(animate=False)
        else:
            self.focus_input()

    def action_page(self, step: int) -> None:
        """Scroll the open question, or else the transcript, whatever has the focus."""
        if self.has_class("asks"):
            self.questions.action_scroll_detail(step * PAGE)
        elif step < 0 and self.transcript.scroll_offset.y == 0:
            self.transcript.action_to_beginning()
        elif step < 0:
            self.transcript.scroll_page_up(animate=False)
        else:
            self.transcript.scroll_page_down(animate=False)

    @on(PromptEditor.Given)
    def _given(self, message: PromptEditor.Given) -> None:
        message.stop()
        self.completions.close()
        if message.text.startswith("!") and not self.attached:
            return self.run_own(message.text[1:].strip())
        blocks: Sequence[s.ContentBlock] = self.completions.blocks_of(message.text)
        blocks = [*blocks, *self.attached] if message.text.strip() or self.attached else []
        self.attached = []
        self.draw_chips()
        if blocks:
            self.driver.carry_out(i.GivePrompt(prompt=blocks, is_steering=message.is_steering))
            self.transcript.anchor()
        else:
            self.driver.send_waiting()
        return None

    def run_own(self, command: str) -> None:
        """Run a user's command, unless it is empty."""
        if command:
            self.driver.run_command(command)

    def attach_output(self) -> bool:
        """Attach the output of the user's last command to the next prompt; returns False if there is none."""
        ended = [view for view in self.model.terminals.views.values() if view.is_mine and view.is_over]
        if not ended:
            return False
        view = ended[-1]
        status = view.status or s.TerminalExitStatus()
        how = f"signal {status.signal}" if status.signal else f"exit status {status.exit_code}"
        text = view.text[-MAX_OUTPUT:]
        self.attached.append(
            s.TextContent(text=f"\n\nI ran this command:\n{view.command}\nIt printed ({how}):\n{text}")
        )
        self.draw_chips()
        self.composer.focus()
        return True

    @on(CommandCard.Typed)
    def _typed(self, message: CommandCard.Typed) -> None:
        message.stop()
        self.driver.carry_out(message.intent)

    @on(PromptEditor.Dropped)
    def _dropped(self, message: PromptEditor.Dropped) -> None:
        """Attach the files whose paths were dragged in."""
        message.stop()
        for path in message.paths:
            try:
                self.attached += attached([path], self.driver.host.agent_capabilities.prompt_capabilities)
            except Error as exc:
                self.driver.notice(str(exc), "warning")
        self.draw_chips()

    @on(PromptEditor.Pasted)
    def _pasted(self, message: PromptEditor.Pasted) -> None:
        """Attach a long text instead of inserting it."""
        message.stop()
        self.attached.append(
            s.TextContent(text=f"\n\n{message.text}")
        )  # a separate paragraph, even if the agent joins the blocks
        self.draw_chips()

    def attach_picture(self, data: bytes) -> None:
        """Attach a picture, if the agent accepts pictures."""
        if self.driver.host.agent_capabilities.prompt_capabilities.image:
            self.attached.append(s.ImageContent(data=base64.b64encode(data).decode(), mime_type="image/png"))
            self.draw_chips()
            self.composer.focus()
        else:
            self.driver.notice("this agent takes no pictures", "warning")

    def draw_chips(self) -> None:
        """Show the attachments of the next prompt."""
        chips = [f"⧉ {_told(block)}" for block in self.attached]
        told = [Content.styled("^X takes the last one off", "$quiet")] if chips else []
        self._chips.update(Content("   ").join([*(line(chip, 60) for chip in chips), *told]))
        self._chips.set_class(bool(chips), "full")

    def drop_chip(self) -> None:
        """Remove the last attachment."""
        if self.attached:
            self.attached.pop()
            self.draw_chips()

    @on(QuestionPanel.QuestionAnswered)
    def _answered(self, message: QuestionPanel.QuestionAnswered) -> None:
        message.stop()
        self.driver.carry_out(message.intent)
        if message.url:
            self.app.open_url(message.url)

    @on(QuestionPanel.TypedAhead)
    def _typed_ahead(self, message: QuestionPanel.TypedAhead) -> None:
        message.stop()
        self.composer.insert(message.text)


def _told(block: s.ContentBlock) -> str:
    match block:
        case s.TextContent(text=text):
            return f"{text.strip().count(chr(10)) + 1} lines of text"
        case s.ResourceLink(name=name):
            return name
        case s.ImageContent(mime_type=kind, data=data):
            return f"{kind} {len(data) * 3 // 4096} KiB"
        case s.EmbeddedResource(resource=resource):
            return os.path.basename(resource.uri)
    return "attachment"
