"""Stores the text of sessions that this screen has shown, for the list of sessions."""

import contextlib
import hashlib
import os
from pathlib import Path

from ....foundation.directories import state_directory
from ...model.conversation import ConversationModel

MOST = 400  # sessions; the oldest texts are deleted first
LONGEST = 64 * 1024  # characters stored from the end of a session


def text_of(model: ConversationModel) -> str:
    """The text of a conversation, with a paragraph for each message."""
    parts, room = list[str](), LONGEST
    for message in reversed(model.transcript.messages):
        if message.speaker != "thought" and room > 0 and (text := message.text.strip()):
            said = f"You: {text}" if message.speaker == "user" else text
            parts.append(said[-room:])
            room -= len(said)
    return "\n\n".join(reversed(parts))


class SessionTexts:
    """Stores one file per session, which only the user can read."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory or state_directory() / "tui" / "texts"

    def _path(self, agent: str, session: str) -> Path:
        return self._directory / hashlib.sha256(f"{agent}\0{session}".encode()).hexdigest()[:32]

    def read(self, agent: str, session: str) -> str:
        """The stored text of a session; empty if there is none."""
        try:
            with open(self._path(agent, session), encoding="utf-8", errors="replace") as file:
                return file.read(LONGEST)
        except OSError:
            return ""

    def keep(self, agent: str, model: ConversationModel) -> None:
        """Store the current text of a conversation; write errors are ignored."""
        if not model.id or not (text := text_of(model)):
            return
        with contextlib.suppress(OSError):
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            path = self._path(agent, model.id)
            aside = path.with_suffix(f".{os.getpid()}")
            file = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(file, "w", encoding="utf-8", errors="replace") as out:
                out.write(text)
            aside.replace(path)
            self._prune()

    def forget(self, agent: str, session: str) -> None:
        """Delete the stored text of a session."""
        with contextlib.suppress(OSError):
            self._path(agent, session).unlink()

    def _prune(self) -> None:
        kept = list(self._directory.iterdir())
        if len(kept) > MOST:
            kept.sort(key=lambda path: path.stat().st_mtime_ns)
            for path in kept[: len(kept) - MOST]:
                path.unlink(missing_ok=True)
