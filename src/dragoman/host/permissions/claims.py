"""The content of `session/request_permission`: the agent's claims about operations that the host cannot see.

They are shown, answered and recorded as claims.
"""

import hashlib
from collections.abc import Sequence

import msgspec

from ... import schema as s
from ...foundation.documents import Document
from ..diffs import unified
from ..display import LIMIT, shown_command, visible
from ..operations import FileDelete, FileRead, FileWrite, McpTool, Operation
from .approvals import Scope
from .questions import DENY_ONCE, DENY_TURN, DETAIL_LIMIT, Option, Question, shown_json
from .subjects import MAX_SHOWN, NamedCommand, Subject

UNCHECKED = "These are the agent's own words; what it is going to do cannot be checked."
MAX_OPTIONS = 16
MAX_LABEL = 1000  # characters of an option's name or id
_OURS = "agent_"  # the prefix of our ids for the agent's options


def about_claim(params: s.RequestPermissionRequest, subject: Subject, warnings: Sequence[str] = ()) -> Question:
    """The question that an agent asks: its own words, and our remarks about what they name.

    Each file, command and text is shown once: the detail has the changes, under the names of their files.
    """
    call = params.tool_call
    changes = _diffs(call) or _named_changes(subject)
    changed = {change.path for change in changes}
    claims = [("Agent's description", call.title), ("Kind", call.kind), ("Tool", call.name)]
    files = dict.fromkeys(location.path for location in call.locations or ())
    claims += [("File", path) for path in list(files)[:MAX_SHOWN] if path not in changed]
    lines = [f"{name}: {visible(value)}" for name, value in claims if value]
    if subject.command and subject.command.shown != call.title:
        lines.append(f"Command: {_shown_command(subject.command)}")
    if call.raw_input is not s.UNSET and call.raw_input is not None:
        texts = {call.title, *files, *changed, *(text for change in changes for text in _texts(change))}
        texts |= {subject.command.shown} if subject.command else set()
        if not _is_among(call.raw_input, texts):
            lines.append(f"Input: {shown_json(call.raw_input)}")
    lines += [_shown(content) for content in (call.content or ())[:MAX_SHOWN] if not isinstance(content, s.Diff)]
    options = [
        Option(f"{_OURS}{number}", visible(option.name, limit=200), option.kind.startswith("allow"), _reach(option))
        for number, option in enumerate(params.options, 1)
    ]
    if not any(not option.allows for option in options):
        options.append(DENY_ONCE)
    return Question(
        session_id=params.session_id,
        title="The agent asks for permission",
        text="\n".join(lines) or "It does not say what for.",
        options=(*options, DENY_TURN),
        tool_call_id=call.tool_call_id,
        detail="\n".join(map(_change, changes)),
        warnings=(UNCHECKED, *map(visible, (*_led_elsewhere(subject), *warnings))),
        key=hashlib.sha256(msgspec.msgpack.encode(params)).hexdigest(),
    )


def _shown_command(command: NamedCommand) -> str:
    return visible(command.line) if command.line is not None else shown_command(command.words)


def _led_elsewhere(subject: Subject) -> list[str]:
    """The real path of a file behind a link."""
    return [f"{change.path} is really {change.real}" for change in subject.changes if change.path != change.real]


def operations(subject: Subject) -> list[Operation]:
    """The operations of the host, or of an MCP server, that a question names."""
    named: list[Operation] = [subject.command.operation] if subject.command else []
    named += [McpTool(server=server, tool=tool) for server, tool in subject.tools]
    match subject.action:
        case "read":
            return [*named, *(FileRead(path=path) for path in subject.paths)]
        case "delete":
            return [*named, *(FileDelete(path=path) for path in subject.paths)]
        case "write":
            others = [path for path in subject.paths if path not in subject.changed]
            named += [FileWrite(path=path, digest="unknown") for path in others]
    return [*named, *(FileWrite(path=path, digest=digest(new)) for path, new in subject.changed.items())]


def digest(text: str) -> str:
    """The digest of a text in the form that operations use."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _diffs(call: s.ToolCallUpdate) -> list[s.Diff]:
    return [content for content in (call.content or ())[:MAX_SHOWN] if isinstance(content, s.Diff)]


def _named_changes(subject: Subject) -> list[s.Diff]:
    """The changes in the input of a tool, for a question that does not show them."""
    steps = ((change.path, old, new) for change in subject.changes for old, new in change.steps)
    return [s.Diff(path=path, old_text=old, new_text=new) for path, old, new in steps]


def _change(diff: s.Diff) -> str:
    """A diff under the name of its file, in a line that no diff can contain."""
    new = " (new)" if diff.old_text is None else ""
    path = f"./{diff.path}" if diff.path.startswith(("@", "+", "-", " ", "\\")) else diff.path
    return f"{visible(path)}{new}\n{visible(unified(diff), limit=DETAIL_LIMIT, lines=True)}"


def _texts(change: s.Diff) -> tuple[str, ...]:
    return (change.new_text,) if change.old_text is None else (change.old_text, change.new_text)


def _is_among(value: object, texts: set[str | None]) -> bool:
    """Whether the input of a tool contains nothing beyond the shown text."""
    match value:
        case dict():
            return all(_is_among(member, texts) for member in value.values())
        case list() | tuple():
            return all(_is_among(item, texts) for item in value)
        case _:
            return value is None or (isinstance(value, str) and value in texts)


def _shown(content: s.ToolCallContent) -> str:
    """The content that the agent itself shows."""
    return f"Content: {shown_json(msgspec.to_builtins(content))}"


def _reach(option: s.PermissionOption) -> Scope:
    return "always" if option.kind.endswith("always") else "once"


def malformed(params: s.RequestPermissionRequest) -> str | None:
    """Why showing a permission request to the user would be misleading; None if it is not."""
    ids = [option.option_id for option in params.options]
    if not ids:
        return "it offers nothing to choose"
    if len(ids) > MAX_OPTIONS:
        return f"it offers more than {MAX_OPTIONS} options"
    if len(set(ids)) < len(ids):
        return "two of its options have the same id"
    if any(len(option.name) > MAX_LABEL or len(option.option_id) > MAX_LABEL for option in params.options):
        return f"the name or the id of an option is longer than {MAX_LABEL} characters"
    for option in params.options:
        allows = option.kind.startswith("allow")
        if any(says is not None and says != allows for says in (_says(option.name), _says(option.option_id))):
            return f'its option "{visible(option.name, limit=80)}" is of the kind {option.kind}'
    return None


_YES = "allow allowed yes approve approved accept accepted proceed grant permit ok okay confirm"
_NO = "reject rejected no deny denied refuse refused decline declined disallow block abort cancel"


def _says(text: str) -> bool | None:
    """Whether an option's name or id begins with a yes or a no; None if with neither."""
    letters = "".join(
        char if char.isalpha() or char == "'" else " " for char in text.casefold() if char.isprintable()
    )
    words = [word for word in letters.split() if word not in ("always", "once", "please")]
    if not words or words[0] in ("don't", "dont", "not", "do", "never"):
        return None
    return True if words[0] in _YES.split() else False if words[0] in _NO.split() else None


def preferred(params: s.RequestPermissionRequest, *kinds: s.PermissionOptionKind) -> s.PermissionOption | None:
    """The first option of the first of these kinds that has one."""
    found = (option for kind in kinds for option in params.options if option.kind == kind)
    return next(found, None)


def chosen(params: s.RequestPermissionRequest, option: Option | None) -> s.PermissionOption | None:
    """The agent's option for the option that the user chose; None for our own options."""
    if option is None or not option.id.startswith(_OURS):
        return None
    return params.options[int(option.id.removeprefix(_OURS).partition("_")[0]) - 1]


def response(option: s.PermissionOption | None) -> s.RequestPermissionResponse:
    """The answer that names an option; without one it is `cancelled`, which allows nothing."""
    if option is None:
        return s.RequestPermissionResponse(outcome=s.CancelledPermissionOutcome())
    return s.RequestPermissionResponse(outcome=s.SelectedPermissionOutcome(option_id=option.option_id))


def told(params: s.RequestPermissionRequest, subject: Subject) -> Document:
    """A request for the audit log: the agent's title, and the command, files and changes that it names."""
    call = params.tool_call
    claims: Document = {"title": _cut(call.title), "kind": call.kind, "name": _cut(call.name)}
    if (command := subject.command) is not None:
        claims |= {"command": _cut(command.shown), "cwd": command.cwd}
    if subject.tools:
        claims["mcp_tool"] = _cut(" or ".join(f"{server}/{tool}" for server, tool in subject.tools))
    if subject.changes:
        claims["changes"] = [
            {"path": _cut(change.path), "digest": digest(change.steps[-1][1])}
            for change in subject.changes[:MAX_SHOWN]
        ]
    if others := [path for path in subject.paths if path not in {change.path for change in subject.changes}]:
        claims["paths"] = [_cut(path) for path in others[:MAX_SHOWN]]
    return {
        "operation": "claim",
        "tool_call": call.tool_call_id,
        "claims": claims,
        "options": [
            {"id": _cut(option.option_id), "name": _cut(option.name), "kind": option.kind}
            for option in params.options[: MAX_OPTIONS + 1]
        ],
    }


def _cut(text: str | None) -> str | None:
    return text and text[:LIMIT]
