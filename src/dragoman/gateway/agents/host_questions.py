"""The host's questions in the form of an agent's permission requests, and people's answers."""

import hashlib

from msgspec import Raw

from ... import codec
from ... import schema as s
from ...foundation.documents import Document
from ...host.display import shown_command
from ...host.operations import Execute, FileOperation, FileWrite
from ...host.permissions.questions import DENY_TURN, Question

MAX_TITLE = 200  # characters


def permission_request(question: Question) -> Document:
    """The params of `session/request_permission`; each question gets its own tool call id."""
    kinds = {True: "allow_once", False: "reject_once"}
    shown = "\n".join((question.text, *question.warnings, question.detail)).strip()
    return {
        "sessionId": question.session_id,
        "toolCall": {
            "toolCallId": f"host-{hashlib.sha256(question.key.encode()).hexdigest()[:24]}",
            "title": _title(question),
            **_described(question),
            "content": [{"type": "content", "content": {"type": "text", "text": shown}}],
        },
        # Denying a whole turn means cancelling it, which every client can do by itself.
        "options": [
            {
                "optionId": option.id,
                "name": option.label,
                "kind": kinds[option.allows] if option.scope == "once" else "allow_always",
            }
            for option in question.options
            if option.id != DENY_TURN.id
        ],
    }


def answer_of(answer: Raw) -> str | None:
    """The id of the chosen option, or None."""
    outcome = codec.decode(answer, s.RequestPermissionResponse).outcome
    return outcome.option_id if isinstance(outcome, s.SelectedPermissionOutcome) else None


def _title(question: Question) -> str:
    """The question with its subject, because logs and small screens show nothing else."""
    about = question.text.partition("\n")[0]
    title = f"{question.title.rstrip('?')}: {about}" if about else question.title
    return title if len(title) <= MAX_TITLE else f"{title[: MAX_TITLE - 1]}…"


def _described(question: Question) -> Document:
    """The operation as the content of a tool call."""
    match operation := question.operation:
        case Execute():
            return {"kind": "execute", "rawInput": {"command": shown_command(operation.argv), "cwd": operation.cwd}}
        case FileWrite():
            return {"kind": "edit", "locations": [{"path": operation.path}]}
        case FileOperation():
            kind = {"file_read": "read", "file_delete": "delete"}.get(operation.kind, "other")
            return {"kind": kind, "locations": [{"path": operation.path}]}
        case _:
            return {}
