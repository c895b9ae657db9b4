"""Two streams as one page: the agent's messages go to one, lines about everything else to the other.

On a terminal, the last lines may be *live*: they show the current state (the plan, running calls) and are redrawn
below new output.  Everything above them stays, so that scrolling back shows what happened.
"""

from collections.abc import Iterable
from typing import TextIO

from ...transcript import Message
from ..layout import seen_width
from ..legible import ProseStream
from ..markdown import LiveMarkdown
from ..output import marked
from ..style import Style, is_same_file, is_terminal, size_of
from .wording import plain

INDENT = "  "


class Page:
    """Writes messages and lines, each to its stream, without mixing them within a line."""

    def __init__(self, said: TextIO, aside: TextIO) -> None:
        self._said, self.aside = said, aside
        self.style = Style.of(aside)
        self.is_terminal = is_terminal(aside)
        self._is_one_stream = is_same_file(said, aside)
        self._speaking: Message | None = None
        self._prose: ProseStream | None = None  # makes messages safe and legible on a terminal
        self._markdown: LiveMarkdown | None = None  # and draws it
        self._ends_line = True  # whether the last message ends with a line break
        self._drawn: list[int] = []  # the widths of the drawn live lines
        self._is_still = False  # whether live lines are hidden at the moment
        self.topic = ""  # the topic of the last lines

    @property
    def columns(self) -> int:
        return size_of(self.aside)[0]

    # The live lines

    def live(self) -> list[str]:
        """The lines of the current state, none wider than the terminal."""
        return []

    def draw(self) -> None:
        """Redraw the live lines."""
        self.erase()
        if not self.is_terminal or self._is_still or self._speaking is not None:
            return
        lines = self.live()
        for line in lines:
            self.aside.write(f"{line}\n")
        self._drawn = [seen_width(line) for line in lines]
        self.aside.flush()

    def erase(self) -> None:
        if self._drawn:
            columns = self.columns
            rows = sum(max(1, -(-each // columns)) for each in self._drawn)  # the terminal may be narrower by now
            self.aside.write(marked(f"\x1b[{rows}A\r\x1b[J"))
            self.aside.flush()
            self._drawn = []

    def hold_still(self, is_still: bool) -> None:
        """Hide the live lines during a question, or draw them again."""
        self._is_still = is_still
        self.draw()

    # What stays

    def speak(self, message: Message) -> None:
        is_aside = message.speaker == "thought"
        out = self.aside if is_aside else self._said
        if message is not self._speaking:
            self.finish_message()
            self.begin("thought" if is_aside else "message")
            self._speaking, self._ends_line = message, True
            self._prose = ProseStream() if out.isatty() or is_aside else None
            drawn = LiveMarkdown(Style.of(out), 0, ("dim",) if is_aside else ())
            self._markdown = drawn if is_terminal(out) else None
        if self.is_terminal and out.isatty():
            self.erase()
        text = plain(message.blocks[-1])
        message.forget()  # shown text need not be kept
        self._say(out, self._prose.show(text) if self._prose else text)

    def _say(self, out: TextIO, text: str) -> None:
        if self._markdown:
            self._markdown.stream.columns = size_of(out)[0]
            text = self._markdown.show(text)
        out.write(text)
        out.flush()
        self._ends_line = text.endswith("\n") if text else self._ends_line

    def finish_message(self) -> None:
        if self._speaking is None:
            return
        out = self.aside if self._speaking.speaker == "thought" else self._said
        self._say(out, self._prose.end() if self._prose else "")
        if self._markdown:
            out.write(self._markdown.end())
        elif not self._ends_line:
            out.write("\n")
        out.flush()
        self._speaking = None

    def make_room(self) -> None:
        """End the line before other output, unless the two streams are not shown together."""
        is_seen = self._said.isatty() or self._is_one_stream
        if self._speaking is not None and (self._speaking.speaker == "thought" or is_seen):
            self.finish_message()

    def begin(self, topic: str) -> None:
        """Begin another topic: end the line, and add an empty one for human readers."""
        self.make_room()
        self.erase()
        if self.is_terminal and self.topic and self.topic != topic:
            self.aside.write("\n")
        self.topic = topic

    def line(self, topic: str, line: str) -> None:
        self.begin(topic)
        self.lines([line])

    def lines(self, lines: Iterable[str]) -> None:
        self.erase()
        for line in lines:
            self.aside.write(f"{line}\n")
        self.aside.flush()
        self.draw()
