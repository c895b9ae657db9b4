"""Messages and thoughts: the agent's text as streaming Markdown, the user's text as it was written."""

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Markdown, Static

from .... import schema as s
from ....transcript import Message
from ...legible import ProseStream
from ...model.parts import Span
from ..words import clock, line, lines, shown
from .attachments import attachment_shown, widget_of
from .folding import Folded


class UserMessage(Vertical):
    """Shows a prompt as it was sent."""

    DEFAULT_CSS = """
    UserMessage { height: auto; width: 1fr; margin-bottom: 1; }
    UserMessage > .speaker { color: $moving; text-style: bold; }
    UserMessage > .words { padding-left: 2; border-left: outer $moving; width: 1fr; }
    """

    def __init__(self, message: Message, cwd: str) -> None:
        super().__init__()
        self._message, self._cwd = message, cwd
        self._words = Static(Content(""), classes="words")

    def compose(self) -> ComposeResult:
        yield Static(Content("You"), classes="speaker")
        yield self._words

    def on_mount(self) -> None:
        self.draw()

    def draw(self) -> None:
        """Draw the current text."""
        self._words.update(lines(block_shown(block, self._cwd) for block in self._message.content))


def block_shown(block: s.ContentBlock, cwd: str = "") -> Content:
    """A content block as plain text; an attachment is a line with its size."""
    return shown(block.text) if isinstance(block, s.TextContent) else attachment_shown(block, cwd)


class AgentMessage(Vertical):
    """Shows the agent's message as Markdown; streamed text does not lay out the text above it again."""

    DEFAULT_CSS = """
    AgentMessage { height: auto; width: 1fr; margin-bottom: 1; }
    AgentMessage Markdown { padding: 0; margin: 0; }
    AgentMessage MarkdownBlock { margin: 0 0 1 0; }
    AgentMessage MarkdownBlock:last-child { margin: 0; }
    AgentMessage MarkdownFence { background: $raised; }
    """

    def __init__(self, message: Message, cwd: str) -> None:
        super().__init__()
        self._message, self._cwd = message, cwd
        self._markdown: Markdown | None = None  # receives the next text
        self._prose = ProseStream()
        self._blocks = 0  # the number of blocks shown
        self._waiting: dict[Markdown, str] = {}  # text that is not drawn yet
        self._is_drawing = False

    def on_mount(self) -> None:
        self.draw()

    def draw(self) -> None:
        """Draw the blocks that arrived since the last call."""
        new = self._message.blocks[self._blocks :]
        self._blocks += len(new)
        for block in new:
            if isinstance(block, s.TextContent):
                self._say(self._prose.show(block.text))
            else:
                self._say(self._prose.end())
                self._markdown = None
                self.mount(widget_of(block, self._cwd))
        if self._waiting and not self._is_drawing:
            self._is_drawing = True
            self.call_later(self._append)

    def _say(self, words: str) -> None:
        if not words:
            return
        if self._markdown is None:
            self._markdown = Markdown("", open_links=False)
            self.mount(self._markdown)
        self._waiting[self._markdown] = self._waiting.get(self._markdown, "") + words

    async def _append(self) -> None:
        try:
            while self._waiting and self.is_attached:
                markdown = next(iter(self._waiting))
                await markdown.append(self._waiting.pop(markdown))
        finally:
            self._is_drawing = False


class ThoughtLine(Folded):
    """Shows the agent's thoughts as one line, which opens."""

    DEFAULT_CSS = """
    ThoughtLine { margin-bottom: 1; }
    ThoughtLine > .head { color: $thought; }
    ThoughtLine > .body { color: $quiet; text-style: italic; }
    """

    def __init__(self, message: Message, span: Span) -> None:
        super().__init__()
        self._message, self._span = message, span
        self._words = Static(Content(""))

    def on_mount(self) -> None:
        self.body.mount(self._words)
        self.draw()

    def draw(self) -> None:
        seconds = self._span.seconds
        told = f"thought for {clock(seconds)}" if seconds and seconds >= 1 else "thought"
        sign = "▾" if self.is_open else "▸"
        last = self._message.text.strip().rpartition("\n")[2]
        hint = Content("") if self.is_open else line(last, 60, "$quiet")
        self.head.update(Content.assemble((f"{sign} {told}", "$thought"), "  ", hint))
        if self.is_open:
            self._words.update(shown(self._message.text.strip()))
