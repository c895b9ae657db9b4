"""A conversation as a document: Markdown to read, JSON for programs."""

import re
from collections.abc import Iterator

import msgspec

from ... import codec
from ... import schema as s
from ...host.diffs import unified
from ...transcript import Message, ToolCallEntry, TurnEnd
from .conversation import ConversationModel
from .parts import OwnCommand, SettledQuestion, ShownEntry

_NO_NAME = re.compile(r"[^a-z0-9]+")
_TICKS = re.compile(r"`{3,}")


def as_document(model: ConversationModel, kind: str) -> bytes:
    """The conversation as `md` or `json`."""
    return as_json(model) if kind == "json" else as_markdown(model).encode(errors="replace")


def file_name(model: ConversationModel) -> str:
    """A file name made from the title."""
    words = _NO_NAME.sub("-", (model.title or model.id or "conversation").lower()).strip("-")
    return words[:60] or "conversation"


def as_markdown(model: ConversationModel) -> str:
    """The conversation for people: messages, tool calls and decisions."""
    head = [f"# {model.title or 'Conversation'}", "", f"{model.agent}, {model.cwd}, session `{model.id}`"]
    parts = [part for entry in model.entries if (part := "\n".join(_told(entry, model)).strip())]
    return "\n\n".join(["\n".join(head), *parts]) + "\n"


def as_json(model: ConversationModel) -> bytes:
    """The conversation for programs: its entries in order, each with its kind, and further facts."""
    told = {
        "session": model.id,
        "cwd": model.cwd,
        "agent": model.agent,
        "title": model.title,
        "mode": model.mode,
        "usage": model.transcript.usage,
        "entries": [_plain(entry) for entry in model.entries],
    }
    return msgspec.json.format(codec.encode(told), indent=1) + b"\n"


def _plain(entry: ShownEntry) -> dict[str, object]:
    told: dict[str, object] = msgspec.to_builtins(entry, builtin_types=(msgspec.Raw,))
    if isinstance(entry, Message):
        told = {"speaker": entry.speaker, "content": entry.content}
    return {"entry": type(entry).__name__, **told}


def _told(entry: ShownEntry, model: ConversationModel) -> Iterator[str]:
    match entry:
        case Message(speaker="user"):
            yield "## You\n"
            yield from (_block(block) for block in entry.content)
        case Message(speaker="thought"):
            yield from (f"> {each}" for each in entry.text.strip().split("\n"))
        case Message():
            yield from (_block(block) for block in entry.content)
        case ToolCallEntry():
            yield from _call(entry)
        case SettledQuestion(title=title, text=text, answer=answer):
            yield f"- **{answer or 'withdrawn'}**: {title} {text.partition(chr(10))[0]}".rstrip()
        case OwnCommand(command=command, terminal_id=id):
            yield f"- you ran `{command}`"
            if view := model.terminals.views.get(id):
                yield _fenced(view.text)
        case s.Notice(title=title):
            yield f"- {title}"
        case TurnEnd(stop_reason=reason, error=error) if reason != "end_turn":
            yield f"*{reason}{f': {error}' if error else ''}*"


def _call(call: ToolCallEntry) -> Iterator[str]:
    yield f"- {call.status}: {call.title or call.name or call.kind}"
    for content in call.content:
        match content:
            case s.Diff(path=path):
                yield f"  {path}\n"
                yield _fenced(unified(content), "diff")
            case s.Content(content=block):
                yield _fenced(block.text) if isinstance(block, s.TextContent) else _block(block)


def _block(block: s.ContentBlock) -> str:
    match block:
        case s.TextContent(text=text):
            return text
        case s.ResourceLink(name=name, uri=uri):
            return f"[{name}]({uri})"
        case s.EmbeddedResource(resource=resource):
            return f"[{resource.uri}]({resource.uri})"
        case s.ImageContent(mime_type=kind) | s.AudioContent(mime_type=kind):
            return f"*{kind}*"
    return ""


def _fenced(text: str, language: str = "") -> str:
    """A text between fences that are longer than any in it."""
    longest = max((len(found) for found in _TICKS.findall(text)), default=2)
    fence = "`" * (longest + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}{language}\n{text}{end}{fence}"
