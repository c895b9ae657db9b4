"""Two streams as one page: what the agent says goes to one, lines about everything else to the other."""

from collections.abc import Iterable
from typing import TextIO

from ...transcript import Message
from ..legible import ProseStream
from ..output import marked
from ..style import Style, is_same_file, is_terminal, size_of
from .wording import plain

INDENT = "  "


class Page:
    """Writes speech and lines, each where it belongs, and never one into the other."""

    def __init__(self, said: TextIO, aside: TextIO) -> None:
        self._said, self.aside = said, aside
        self.style = Style.of(aside)
        self.is_terminal = is_terminal(aside)
        self._is_one_stream = is_same_file(said, aside)
        self._speaking: Message | None = None
        self._stream: ProseStream | None = None  # makes what is said legible, where it is read on a terminal
        self._ends_line = True  # whether what was said last ends with a line break
        self._is_counting = False  # whether the last line is a count
        self.topic = ""  # what the last lines were about
        self.last_call: str | None = None  # the tool call whose line is the last one there is

    @property
    def columns(self) -> int:
        return size_of(self.aside)[0]

    def count(self, words: str) -> None:
        """Write words in the place of the last count."""
        self.aside.write(marked("\r\x1b[2K") + words)
        self.aside.flush()
        self._is_counting = True

    def stop_counting(self) -> None:
        if self._is_counting:
            self.aside.write(marked("\r\x1b[2K"))
            self.aside.flush()
            self._is_counting = False

    def speak(self, message: Message) -> None:
        is_aside = message.speaker == "thought"
        out = self.aside if is_aside else self._said
        if message is not self._speaking:
            self.finish_message()
            self.begin("thought" if is_aside else "message")
            self._speaking, self._ends_line = message, True
            self._stream = ProseStream() if out.isatty() or is_aside else None
        text = plain(message.blocks[-1])
        message.blocks.clear()  # what was shown need not be kept
        shown = self._stream.show(text) if self._stream else text
        out.write(self.style(shown, "dim") if is_aside else shown)
        out.flush()
        self._ends_line = shown.endswith("\n") if shown else self._ends_line

    def finish_message(self) -> None:
        if self._speaking is not None:
            out = self.aside if self._speaking.speaker == "thought" else self._said
            out.write((self._stream.end() if self._stream else "") + ("" if self._ends_line else "\n"))
            out.flush()
            self._speaking = None

    def make_room(self) -> None:
        """Something else is to be written: end the line, unless what is said goes where nobody sees the two."""
        is_seen = self._said.isatty() or self._is_one_stream
        if self._speaking is not None and (self._speaking.speaker == "thought" or is_seen):
            self.finish_message()

    def begin(self, topic: str) -> None:
        """What follows is about something else: end the line, and leave one empty where a person reads."""
        self.make_room()
        self.stop_counting()
        self.last_call = None
        if self.is_terminal and self.topic and self.topic != topic:
            self.aside.write("\n")
        self.topic = topic

    def line(self, topic: str, line: str) -> None:
        self.begin(topic)
        self.lines([line])

    def lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.aside.write(f"{line}\n")
        self.aside.flush()
