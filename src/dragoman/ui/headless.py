"""One turn on a plain terminal or in a pipe: what the agent says goes to stdout, everything else to stderr."""

import asyncio
import sys
from collections.abc import Sequence
from typing import TextIO

from .. import schema as s
from ..client import Client, connect
from ..transcript import Entry, Message, PlanEntries, ToolCallEntry, Transcript

DONE, REFUSED, LIMIT, INTERRUPTED = 0, 2, 3, 130
EXIT_CODES = {"refusal": REFUSED, "max_tokens": LIMIT, "max_turn_requests": LIMIT, "cancelled": INTERRUPTED}
MARKS = {"pending": "…", "in_progress": "▶", "completed": "✓", "failed": "✗", "cancelled": "✗"}
STEPS = {"pending": " ", "in_progress": "~", "completed": "x"}


class Printer:
    """Prints a turn as it happens."""

    def __init__(self, said: TextIO, aside: TextIO) -> None:
        self._said, self._aside = said, aside
        self._transcript = Transcript()
        self._speaking: Message | None = None
        self._shown: dict[str, str] = {}  # tool call id -> the line last printed for it

    def show(self, event: s.SessionUpdate | s.PromptResponse) -> None:
        entry = self._transcript.apply(event)
        if isinstance(entry, Message) and entry.speaker != "user":
            self._speak(entry)
        elif entry is not None:
            self.finish_line()
            self._note(entry)

    def finish_line(self) -> None:
        """End the message being printed."""
        if self._speaking is not None:
            print(file=self._out(self._speaking), flush=True)
            self._speaking = None

    def _speak(self, message: Message) -> None:
        if message is not self._speaking:
            self.finish_line()
            self._speaking = message
        print(plain(message.blocks[-1]), end="", file=self._out(message), flush=True)

    def _note(self, entry: Entry) -> None:
        match entry:
            case ToolCallEntry(id=id):
                line = f"{MARKS[entry.status]} {entry.title}"
                if self._shown.get(id) != line:
                    self._shown[id] = line
                    self._print(line)
            case PlanEntries(plan=s.Plan(entries=steps) | s.PlanItems(entries=steps)):
                for step in steps:
                    self._print(f"[{STEPS[step.status]}] {step.content}")
            case s.Notice():
                self._print(f"{entry.severity}: {entry.title} {entry.description or ''}".rstrip())

    def _print(self, line: str) -> None:
        print(line, file=self._aside, flush=True)

    def _out(self, message: Message) -> TextIO:
        return self._said if message.speaker == "agent" else self._aside


def plain(block: s.ContentBlock) -> str:
    """A content block in words."""
    match block:
        case s.TextContent(text=text):
            return text
        case s.ResourceLink(name=name, uri=uri):
            return f"[{name}]({uri})"
        case s.EmbeddedResource(resource=resource):
            return f"[{resource.uri}]"
        case s.ImageContent() | s.AudioContent():
            return f"[{block.mime_type}]"
        case _:
            return "[content of an unknown kind]"


async def run(agent: str | Sequence[str], prompt: str, *, cwd: str, client: Client | None = None) -> int:
    """Run one turn of an agent and print it; gives the exit code."""
    printer = Printer(sys.stdout, sys.stderr)
    async with connect(agent, client) as connected:
        session = await connected.new_session(cwd=cwd)
        turn = session.prompt(prompt)
        try:
            async for event in turn:
                printer.show(event)
        except asyncio.CancelledError:
            session.cancel()
            raise
        finally:
            printer.finish_line()
    return EXIT_CODES.get(turn.response.stop_reason, DONE)
