"""What was said and thought: the agent's words as Markdown that streams, the person's as they were written."""

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Markdown, Static

from .... import schema as s
from ....transcript import Message
from ...legible import ProseStream
from ...model.parts import Span
from ..words import clock, line, lines, shown
from .folding import Folded

ATTACHED = "⧉"


class UserMessage(Vertical):
    """A prompt, as it was sent."""

    DEFAULT_CSS = """
    UserMessage { height: auto; width: 1fr; margin-bottom: 1; }
    UserMessage > .speaker { color: $moving; text-style: bold; }
    UserMessage > .words { padding-left: 2; border-left: outer $moving; width: 1fr; }
    """

    def __init__(self, message: Message) -> None:
        super().__init__()
        self._message = message
        self._words = Static(Content(""), classes="words")

    def compose(self) -> ComposeResult:
        yield Static(Content("You"), classes="speaker")
        yield self._words

    def on_mount(self) -> None:
        self.draw()

    def draw(self) -> None:
        """Draw what it says now."""
        self._words.update(lines(map(block_shown, self._message.content)))


def block_shown(block: s.ContentBlock) -> Content:
    """A content block in plain text; what is none is a line with its size."""
    match block:
        case s.TextContent(text=text):
            return shown(text)
        case s.ResourceLink(name=name, uri=uri):
            return _attached(name, uri)
        case s.EmbeddedResource(resource=s.TextResourceContents(uri=uri, text=text)):
            return _attached(uri, f"{len(text):,} characters")
        case s.EmbeddedResource(resource=resource):
            return _attached(resource.uri, resource.mime_type or "")
        case s.ImageContent(data=data) | s.AudioContent(data=data):
            return _attached(block.mime_type, f"{len(data) * 3 // 4:,} bytes")
        case _:
            return Content.styled("content of a kind this version does not know", "$quiet")


def _attached(name: str, more: str) -> Content:
    return Content.assemble((f"{ATTACHED} ", "$moving"), line(name, 80), "  ", line(more, 60, "$quiet"))


class AgentMessage(Vertical):
    """What the agent says, as Markdown; what is above the words that stream is not laid out again."""

    DEFAULT_CSS = """
    AgentMessage { height: auto; width: 1fr; margin-bottom: 1; }
    AgentMessage Markdown { padding: 0; margin: 0; }
    AgentMessage MarkdownBlock { margin: 0 0 1 0; }
    AgentMessage MarkdownBlock:last-child { margin: 0; }
    AgentMessage MarkdownFence { background: $raised; }
    """

    def __init__(self, message: Message) -> None:
        super().__init__()
        self._message = message
        self._markdown = Markdown("", open_links=False)
        self._prose = ProseStream()
        self._blocks = 0  # how many of the message are shown
        self._waiting = ""  # words that are not drawn yet
        self._is_drawing = False

    def compose(self) -> ComposeResult:
        yield self._markdown

    def on_mount(self) -> None:
        self.draw()

    def draw(self) -> None:
        """Draw what has come since."""
        new = self._message.blocks[self._blocks :]
        self._blocks += len(new)
        for block in new:
            if isinstance(block, s.TextContent):
                self._waiting += self._prose.show(block.text)
            else:
                self._waiting += self._prose.end()
                self.mount(Static(block_shown(block)))
        if self._waiting and not self._is_drawing:
            self._is_drawing = True
            self.call_later(self._append)

    async def _append(self) -> None:
        try:
            while self._waiting and self.is_attached:
                words, self._waiting = self._waiting, ""
                await self._markdown.append(words)
        finally:
            self._is_drawing = False


class ThoughtLine(Folded):
    """What the agent thinks: one line, which opens."""

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
