"""Clients for tests of Claude: with and without files and terminals to lend, and what they were told."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

import dragoman.schema as s
from dragoman.client.session import Session
from dragoman.testing import RecordingClient

U = TypeVar("U")


class Lending(RecordingClient):
    """Lends files and terminals."""


class Bare(RecordingClient):
    """Lends nothing, so that Claude uses tools of its own; shows notices if it is told to."""

    session_capabilities: s.ClientSessionCapabilities | None = None
    meta: dict[str, Any] | None = None

    def capabilities(self) -> s.ClientCapabilities:
        return replace(
            super().capabilities(),
            fs=s.FileSystemCapabilities(),
            terminal=False,
            session=self.session_capabilities,
            meta=self.meta,
        )


class Told:
    """What one turn was told, and how it ended."""

    def __init__(self, updates: list[Any], response: s.PromptResponse) -> None:
        self.updates, self.response = updates, response

    def of(self, kind: type[U]) -> list[U]:
        return [update for update in self.updates if isinstance(update, kind)]

    @property
    def text(self) -> str:
        return said(self.of(s.AgentMessageChunk))

    @property
    def thoughts(self) -> str:
        return said(self.of(s.AgentThoughtChunk))

    def call(self, id: str) -> dict[str, Any]:
        """A tool call as it was told in the end: later members win."""
        found: dict[str, Any] = {"kind": "other", "status": "pending"}
        for update in self.updates:
            if isinstance(update, s.ToolCall | s.ToolCallUpdated) and update.tool_call_id == id:
                told = msgspec.to_builtins(update)
                found.update({name: value for name, value in told.items() if value is not None})
        return found

    def kinds(self) -> list[str]:
        return [type(update).__name__ for update in self.updates]


def said(chunks: Any) -> str:
    return "".join(chunk.content.text for chunk in chunks if isinstance(chunk.content, s.TextContent))


async def turn(session: Session, prompt: str | Sequence[s.ContentBlock]) -> Told:
    """Take a turn to its end."""
    *updates, response = [item async for item in session.prompt(prompt)]
    assert isinstance(response, s.PromptResponse)
    return Told(updates, response)


def option_values(options: Any) -> Iterator[tuple[str, str]]:
    for option in options:
        yield option.id, option.current_value


def claude_pids() -> list[int]:
    """The processes of this one's that are `claude`."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                status = Path("/proc", name, "stat").read_text().rsplit(")", 1)[1].split()
                command = Path("/proc", name, "cmdline").read_bytes()
            except OSError:
                continue
            if int(status[1]) == os.getpid() and b"stream-json" in command:
                found.append(int(name))
    return found
