"""Titles of sessions: at once the user's first words, later a title from the model."""

from collections.abc import Sequence

from ..model.port import ModelRequest
from .history import Message, ModelInput, ModelReply, TextPart

MAX_TITLE = 60
MAX_QUOTED = 2000  # characters of each side's messages that a title is made from
ORDER = """\
Write a title for the conversation above: what it is about, in at most six words and in the user's language. Write \
only the title."""


def from_words(text: str) -> str:
    """A title from the user's message; empty if it has no text."""
    words = " ".join(text.split())
    return words if len(words) <= MAX_TITLE else words[: MAX_TITLE - 1].rstrip() + "…"


def question(history: Sequence[Message]) -> ModelRequest:
    """The request for a title."""
    asked = next((message.text for message in history if isinstance(message, ModelInput)), "")
    answered = next((message.text for message in reversed(history) if isinstance(message, ModelReply)), "")
    told = f"User: {asked[:MAX_QUOTED]}\n\nYou: {answered[:MAX_QUOTED]}"
    text = f"<conversation>\n{told}\n</conversation>\n\n{ORDER}"
    return ModelRequest("You name conversations.", [ModelInput((TextPart(text),))], purpose="title")


def from_answer(text: str) -> str:
    """The title in a model's answer: its first line, without quotes and other decoration."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    return from_words(first.strip(" \t#*\"'`“”").removeprefix("Title:"))
