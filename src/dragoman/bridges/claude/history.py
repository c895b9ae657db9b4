"""Sessions that Claude has stored: list, read, rename and delete them in the program's own files.

The SDK reads those files.  It takes a second to load, so it is loaded on first use.
"""

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ... import schema as s
from ...errors import InvalidParams, MissingExtra, ResourceNotFound
from ...foundation.documents import members
from .messages.markers import NO_ANSWER
from .program.launch import INSTALL, config_directory
from .program.running import Message
from .titles import shortened

if TYPE_CHECKING:
    from claude_agent_sdk import SDKSessionInfo, SessionMessage

PAGE = 1000  # sessions in one answer
_CURSOR = re.compile(r"offset:(\d{1,9})")
_ID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)


def listed(params: s.ListSessionsRequest) -> s.ListSessionsResponse:
    """A page of the stored sessions, of one directory or of all."""
    offset = 0
    if params.cursor is not None:
        if not (found := _CURSOR.fullmatch(params.cursor)):
            raise InvalidParams("this cursor was not given by this agent")
        offset = int(found[1])
    found_sessions = _sdk().list_sessions(directory=params.cwd, limit=PAGE + 1, offset=offset)
    sessions = [
        s.SessionInfo(
            session_id=info.session_id,
            cwd=info.cwd,
            title=shortened(info.summary or "") or None,
            updated_at=_when(info),
        )
        for info in found_sessions[:PAGE]
        if info.cwd
    ]
    following = f"offset:{offset + PAGE}" if len(found_sessions) > PAGE else None
    return s.ListSessionsResponse(sessions=sessions, next_cursor=following)


def transcript(id: str, cwd: str) -> list[Message]:
    """The messages of a stored session in order, each with the result of its tool."""
    file = session_file(id)
    messages = _sdk().get_session_messages(id, directory=cwd) or _sdk().get_session_messages(id)
    lines = {line["uuid"]: line for line in _lines(file) if "uuid" in line}
    found: list[Message] = []
    for message in messages:
        line = lines.get(message.uuid, {})
        if line.get("isMeta") or line.get("isCompactSummary") or line.get("isSidechain") or _is_filler(message):
            continue
        result = {"tool_use_result": line["toolUseResult"]} if "toolUseResult" in line else {}
        found.append({"type": message.type, "uuid": message.uuid, "message": message.message, **result})
    return found


def _is_filler(message: "SessionMessage") -> bool:
    said = members(message.message)
    content = said.get("content")
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    return said.get("model") == "<synthetic>" and NO_ANSWER in texts


def delete(id: str) -> None:
    """Delete a stored session for good."""
    session_file(id)
    try:
        _sdk().delete_session(id)
    except FileNotFoundError:
        raise _not_found(id) from None


def rename(id: str, title: str) -> str:
    """Give a stored session a title; returns the title as stored."""
    session_file(id)
    title = shortened(title)
    if not title:
        raise InvalidParams("the title is empty")
    try:
        _sdk().rename_session(id, title)
    except FileNotFoundError:
        raise _not_found(id) from None
    return title


def session_file(id: str) -> Path:
    """The file of a stored session; raises ResourceNotFound if there is none."""
    if _ID.fullmatch(id):
        for file in (config_directory() / "projects").glob(f"*/{id}.jsonl"):
            return file
    raise _not_found(id)


def is_kept(id: str) -> bool:
    """Whether a session can be continued; one that has just begun may not be stored yet."""
    try:
        session_file(id)
    except ResourceNotFound:
        return False
    return True


def _not_found(id: str) -> ResourceNotFound:
    return ResourceNotFound("Session not found", {"sessionId": id})


def _lines(file: Path) -> Iterator[Message]:
    with file.open("rb") as lines:
        for line in lines:
            try:
                entry = msgspec.json.decode(line)
            except msgspec.DecodeError:
                continue  # the last line, if the program was killed while it wrote it
            if isinstance(entry, dict):
                yield entry


def _when(info: "SDKSessionInfo") -> str:
    return datetime.fromtimestamp(info.last_modified / 1000, UTC).isoformat().replace("+00:00", "Z")


def _sdk() -> Any:
    try:
        import claude_agent_sdk
    except ImportError as exc:
        raise MissingExtra(f"Claude needs claude-agent-sdk: {INSTALL}") from exc
    return claude_agent_sdk


def check_directory(path: str) -> None:
    """Raise InvalidParams for a session's directory that does not exist."""
    if not os.path.exists(path):
        raise InvalidParams(f"the directory does not exist: {path}")
    if not os.path.isdir(path):
        raise InvalidParams(f"not a directory: {path}")
