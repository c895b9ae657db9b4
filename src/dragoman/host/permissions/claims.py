"""What an agent asks in `session/request_permission`: its own words about something nobody here can see.

They are shown and answered, never believed: no word of them decides anything.
"""

import hashlib
from typing import Any

import msgspec

from ... import schema as s
from ..diffs import unified
from ..display import visible
from .approvals import Scope
from .questions import DENY_ONCE, DENY_TURN, DETAIL_LIMIT, Option, Question

MAX_OPTIONS = 16
_OURS = "agent_"  # what the ids begin with that we give the agent's options


def about_claim(params: s.RequestPermissionRequest) -> Question:
    """The question an agent wants to have asked: its own words about something we cannot see."""
    call = params.tool_call
    claims = [("says", call.title), ("calls it", call.kind), ("tool", call.name)]
    claims += [("file", path) for path in dict.fromkeys(location.path for location in (call.locations or ())[:20])]
    claims += [("input", None if call.raw_input is s.UNSET else _json(call.raw_input))]
    claims += [_shown(content) for content in (call.content or ())[:20]]
    lines = [f"{name}: {visible(value)}" for name, value in claims if value]
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
        detail="\n".join(map(_change, _diffs(call))),
        warnings=("These are the agent's own words; what it is going to do cannot be checked.",),
        key=hashlib.sha256(msgspec.json.encode(params)).hexdigest(),
    )


def _diffs(call: s.ToolCallUpdate) -> list[s.Diff]:
    return [content for content in (call.content or ())[:20] if isinstance(content, s.Diff)]


def _change(diff: s.Diff) -> str:
    """A diff under the name of its file."""
    new = " (new)" if diff.old_text is None else ""
    return f"{visible(diff.path)}{new}\n{visible(unified(diff), limit=DETAIL_LIMIT, lines=True)}"


def _shown(content: s.ToolCallContent) -> tuple[str, str]:
    """What an agent shows of its own accord; of a diff the file alone, for the rest is the question's detail."""
    return ("changes", content.path) if isinstance(content, s.Diff) else ("shows", _json(content))


def _reach(option: s.PermissionOption) -> Scope:
    return "always" if option.kind.endswith("always") else "once"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def malformed(params: s.RequestPermissionRequest) -> str | None:
    """Why a permission request cannot be put to the user without misleading somebody; None when it can."""
    ids = [option.option_id for option in params.options]
    if not ids:
        return "it offers nothing to choose"
    if len(ids) > MAX_OPTIONS:
        return f"it offers more than {MAX_OPTIONS} options"
    if len(set(ids)) < len(ids):
        return "two of its options have the same id"
    for option in params.options:
        allows = option.kind.startswith("allow")
        if any(says is not None and says != allows for says in (_says(option.name), _says(option.option_id))):
            return f'its option "{visible(option.name, limit=80)}" is of the kind {option.kind}'
    return None


_YES = "allow allowed yes approve approved accept accepted proceed grant permit ok okay confirm"
_NO = "reject rejected no deny denied refuse refused decline declined disallow block abort cancel"


def _says(text: str) -> bool | None:
    """Whether an option's name or id begins with a yes or a no; None when it does with neither."""
    letters = "".join(
        char if char.isalpha() or char == "'" else " " for char in text.casefold() if char.isprintable()
    )
    words = [word for word in letters.split() if word not in ("always", "once", "please")]
    if not words or words[0] in ("don't", "dont", "not", "do", "never"):
        return None
    return True if words[0] in _YES.split() else False if words[0] in _NO.split() else None


def preferred(params: s.RequestPermissionRequest, *kinds: s.PermissionOptionKind) -> s.PermissionOption | None:
    """The first option of the first of these kinds that there is one of."""
    found = (option for kind in kinds for option in params.options if option.kind == kind)
    return next(found, None)


def chosen(params: s.RequestPermissionRequest, option: Option | None) -> s.PermissionOption | None:
    """The agent's option behind the one the user chose; None for one of our own."""
    if option is None or not option.id.startswith(_OURS):
        return None
    return params.options[int(option.id.removeprefix(_OURS)) - 1]


def response(option: s.PermissionOption | None) -> s.RequestPermissionResponse:
    """The answer that names an option; without one it is `cancelled`, which allows nothing."""
    if option is None:
        return s.RequestPermissionResponse(outcome=s.CancelledPermissionOutcome())
    return s.RequestPermissionResponse(outcome=s.SelectedPermissionOutcome(option_id=option.option_id))


def told(params: s.RequestPermissionRequest) -> dict[str, Any]:
    """A request as the audit log has it."""
    call = params.tool_call
    return {
        "operation": "claim",
        "tool_call": call.tool_call_id,
        "claims": {"title": call.title, "kind": call.kind, "name": call.name},
        "options": [
            {"id": option.option_id, "name": option.name, "kind": option.kind} for option in params.options
        ],
    }
