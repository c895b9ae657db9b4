"""The part of an agent's question that a person certainly saw in a foreign client.

Clients show a question's title, its texts and its diffs; they may hide the input of a tool.  They show texts
unchanged, so invisible characters may make them look like something else.
"""

import re
from collections.abc import Iterator

from ... import schema as s
from ..display import visible
from ..variables import is_harmless
from .subjects import MAX_SHOWN, NamedCommand, ShownChange, Subject

MAX_TITLE = 200  # characters; a small screen shows only the beginning of a longer text
MAX_TEXT = 4000
# The marks around a command in a question that consists of this command alone.
_VERB = re.compile(r"(?:run|running|execute|bash|shell|terminal)\b:?\s+", re.IGNORECASE)
_FENCED = re.compile(r"```\w*\n(?P<line>.*?)\n?```", re.DOTALL)


def seen(call: s.ToolCallUpdate, subject: Subject, cwd: str) -> Subject:
    """The operations that a question names and certainly shows, in a session with this directory."""
    contents = call.content or ()
    shows_changes = len(contents) <= MAX_SHOWN and any(isinstance(content, s.Diff) for content in contents)
    changes = tuple(change for change in subject.changes if shows_changes and _is_as_it_looks(change))
    command = subject.command if subject.command and _is_shown(subject.command, call, cwd) else None
    return Subject(changes=changes, command=command)


def _is_as_it_looks(change: ShownChange) -> bool:
    """Whether a change concerns the file it names, and has no invisible characters."""
    texts = [change.path, *(text for step in change.steps for text in step if text)]
    return change.path == change.real and all(map(_is_plain, texts))


def _is_shown(command: NamedCommand, call: s.ToolCallUpdate, cwd: str) -> bool:
    """Whether a question shows the command, which runs in the expected directory and without variables."""
    if command.cwd != cwd or not all(is_harmless(name, value) for name, value in command.env):
        return False
    return _is_plain(command.shown) and any(words == command.shown for words in _words(call))


def _words(call: s.ToolCallUpdate) -> Iterator[str]:
    """A question's title and texts, without the marks around a command."""
    if call.title and len(call.title) <= MAX_TITLE:
        yield from _bare(call.title)
        yield from _bare(_VERB.sub("", call.title, count=1) if _VERB.match(call.title) else "")
    for content in (call.content or ())[:MAX_SHOWN]:
        if isinstance(content, s.Content) and isinstance(content.content, s.TextContent):
            text = content.content.text
            if len(text) <= MAX_TEXT:
                yield from _bare(text)


def _bare(text: str) -> Iterator[str]:
    text = text.strip()
    yield text
    yield text.removeprefix("$ ")
    if len(text) > 2 and text[0] == text[-1] == "`" and "`" not in text[1:-1]:
        yield text[1:-1]
    if fenced := _FENCED.fullmatch(text):
        yield fenced["line"]


def _is_plain(text: str) -> bool:
    return visible(text, limit=len(text) + 1, lines=True) == text
