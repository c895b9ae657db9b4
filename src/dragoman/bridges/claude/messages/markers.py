"""Marks that the `claude` program adds to user messages, and the visible part of those messages."""

import re
from collections.abc import Mapping

from .... import schema as s
from ....foundation.documents import Json

_HIDDEN = re.compile(
    r"<(command-name|command-message|command-args|local-command-caveat|local-command-stdout|local-command-stderr"
    r"|system-reminder|task-notification)>.*?</\1>\s*",
    re.DOTALL,
)
_PRINTED = re.compile(r"<local-command-(?:stdout|stderr)>(.*?)</local-command-(?:stdout|stderr)>", re.DOTALL)
_COMMAND = re.compile(r"<command-name>\s*(/?\S+?)\s*</command-name>")
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
LOGIN = ("Please run /login", "Not logged in", "Invalid API key")
MODEL_SET = "Set model to "  # printed by the program when the bridge sets its model
NO_ANSWER = "No response requested."  # written by the program where an interrupted turn has no answer
NOT_FOUND = "No conversation found with session ID"


def visible(text: str) -> str:
    """A user's text without the program's marks; a slash command as it was typed."""
    if found := _COMMAND.search(text):
        arguments = _ARGUMENTS.search(text)
        name = found[1] if found[1].startswith("/") else f"/{found[1]}"
        return f"{name} {arguments[1].strip() if arguments else ''}".strip()
    return _HIDDEN.sub("", text).strip() if "<" in text else text


def printed(text: str) -> str:
    """The output of a command that runs without the model."""
    return _COLOURS.sub("", "\n".join(part.strip() for part in _PRINTED.findall(text))).strip()


def wants_login(text: str) -> bool:
    """Whether a text of the program means that nobody is logged in."""
    return any(words in text for words in LOGIN)


def user_content(block: Mapping[str, Json]) -> s.ContentBlock | None:
    """A block of a user's message as the user wrote it; None if the user wrote none of it."""
    if block.get("type") == "text":
        words = visible(str(block.get("text") or ""))
        return s.TextContent(text=words) if words else None
    source = block.get("source")
    if block.get("type") == "image" and isinstance(source, dict) and isinstance(source.get("data"), str):
        return s.ImageContent(data=source["data"], mime_type=source.get("media_type") or "image/png")
    return None
