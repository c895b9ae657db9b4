"""The servers that a session may start or reach: those that the user approved, if they are unchanged.

An approval covers the command, its arguments, its environment, and the bytes of the program and of every file among
the arguments; for a remote server, its address and the names of its headers.  A question names the changes.
"""

import asyncio
import contextlib
import hashlib
import hmac
import json
import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from .. import schema as s
from ..agent.turn import AgentSession, new_id
from ..errors import Error, RpcError
from ..foundation.destinations import PUBLIC_ONLY
from ..foundation.directories import state_directory
from ..foundation.programs import find_program
from ..host.disk import opened, plain_content, replace
from ..host.display import visible
from .connections import McpFailure
from .credentials import redactor_of

MAX_STORE = 4 * 1024 * 1024
MAX_APPROVALS = 1000
MAX_HASHED = 1024 * 1024 * 1024  # bytes of a program; a larger file is identified by its size and its times
SHOWN = 500  # characters of an argument in a question

UNTIL_CHANGED = s.PermissionOption(
    option_id="allow_until_changed", name="Allow until it changes", kind="allow_always"
)
SESSION = s.PermissionOption(option_id="allow_session", name="Allow in this session", kind="allow_once")
REJECT = s.PermissionOption(option_id="reject", name="Reject", kind="reject_once")


class ServerApprovals:
    """The approved servers, each with a keyed hash of each part; the parts themselves are not stored.

    Without a path, the approvals end with this object.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._session: dict[str, dict[str, str]] = {}

    def changes(self, key: str, parts: Mapping[str, str]) -> list[str] | None:
        """The parts that have changed since the approval; None for a server that was never approved."""
        found: list[list[str]] = []
        for known in (self._session.get(key), self._stored().get(key)):
            if known is not None:
                now = _marks(parts, known.get("", ""))
                found.append(sorted(name for name in {*now, *known} if now.get(name) != known.get(name)))
        return min(found, key=len) if found else None

    def approve(self, key: str, parts: Mapping[str, str], *, for_good: bool) -> None:
        """Approve a server in its present form; raises OSError if that cannot be stored."""
        marks = _marks(parts, secrets.token_hex(16))
        self._session[key] = marks
        if for_good and self._path:
            kept = {name: known for name, known in self._stored().items() if name != key}
            for name in list(kept)[: max(0, len(kept) + 1 - MAX_APPROVALS)]:
                del kept[name]
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace(self._path, json.dumps({**kept, key: marks}).encode())

    def _stored(self) -> dict[str, dict[str, str]]:
        """The stored approvals; an unreadable file has none."""
        if self._path is None:
            return {}
        try:
            found = json.loads(plain_content(self._path, MAX_STORE))
        except (OSError, ValueError):
            return {}
        if not isinstance(found, dict):
            return {}
        return {key: marks for key, marks in found.items() if isinstance(marks, dict)}


def approvals_file() -> Path | None:
    """The file of approvals; None for an agent in a gateway, whose clients are several users."""
    return None if os.environ.get(PUBLIC_ONLY) else state_directory() / "mcp_servers.json"


def _marks(parts: Mapping[str, str], salt: str) -> dict[str, str]:
    def mark(value: str) -> str:
        return hmac.new(salt.encode(), value.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()

    return {"": salt, **{name: mark(value) for name, value in parts.items()}}


def parts_of(config: s.McpServer, cwd: str) -> dict[str, str]:
    """Every part of a server that an approval covers, by its name in a question; reads the named files."""
    match config:
        case s.McpServerStdio(command=command, args=args, env=env):
            program = _found(command, {each.name: each.value for each in env}.get("PATH"), cwd)
            parts = {"its command": command, "its arguments": json.dumps(list(args))}
            parts |= {"where its program is": program, "its program": _digest(program) or ""}
            parts |= {f"its variable {each.name}": each.value for each in env}
            words = {word for each in args for word in (each, each.partition("=")[2]) if word}
            files = {word: _digest(os.path.join(cwd, word)) for word in sorted(words)}
            return parts | {f"its file {word}": digest for word, digest in files.items() if digest}
        case s.McpServerHttp(url=url, headers=headers) | s.McpServerSse(url=url, headers=headers):
            return {"its address": url} | {f"its header {each.name.lower()}": "" for each in headers}
        case _:
            return {}


def _found(command: str, path: str | None, cwd: str) -> str:
    if os.sep in command:
        return os.path.realpath(os.path.join(cwd, command))
    found = find_program(command, path=path)
    return os.path.realpath(found) if found else ""


def _digest(path: str) -> str | None:
    """The SHA-256 of a plain file; None for anything else."""
    with contextlib.suppress(OSError, ValueError), opened(path, follow=True) as (fd, status):
        if not stat.S_ISREG(status.st_mode):
            return None
        if status.st_size > MAX_HASHED:
            return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
        with open(fd, "rb", closefd=False) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    return None


class ServerTrust:
    """Asks the user before a server without a valid approval is started or reached."""

    def __init__(self, session: AgentSession, approvals: ServerApprovals) -> None:
        self._session = session
        self._approvals = approvals
        self._asking = asyncio.Lock()  # one question after the other

    async def approve(self, config: s.McpServer) -> None:
        """Return if the server may be used; raises McpFailure if it may not."""
        if isinstance(config, s.McpServerAcp):  # it is in the client, which decides on its calls itself
            return
        key = json.dumps([config.name, os.path.realpath(self._session.cwd)])
        async with self._asking:
            parts = await asyncio.to_thread(parts_of, config, self._session.cwd)
            changed = await asyncio.to_thread(self._approvals.changes, key, parts)
            if changed == []:
                return
            chosen = await self._ask(config, parts, changed)
            if chosen is None or not chosen.kind.startswith("allow"):
                raise McpFailure(f"the user did not allow the MCP server {config.name!r}")
            if await asyncio.to_thread(parts_of, config, self._session.cwd) != parts:
                raise McpFailure(f"the MCP server {config.name!r} changed while the user was asked about it")
            try:
                await asyncio.to_thread(self._approvals.approve, key, parts, for_good=chosen is UNTIL_CHANGED)
            except OSError as exc:
                await self._session.notice("The approval could not be stored", str(exc.strerror), "warning")

    async def _ask(
        self, config: s.McpServer, parts: Mapping[str, str], changed: list[str] | None
    ) -> s.PermissionOption | None:
        verb = "Start" if isinstance(config, s.McpServerStdio) else "Connect to"
        told = s.Content(content=s.TextContent(text=_told(config, parts, changed)))
        name = visible(config.name, limit=SHOWN)
        call = s.ToolCall(
            tool_call_id=new_id("call"), title=f"{verb} the MCP server {name}", kind="other", content=[told]
        )
        options = [SESSION, UNTIL_CHANGED, REJECT]
        await self._session.update(call)
        asked = s.ToolCallUpdate(
            tool_call_id=call.tool_call_id, title=call.title, kind="other", status="pending", content=[told]
        )
        chosen = None
        try:
            answer = await self._session.client.request_permission(
                s.RequestPermissionRequest(session_id=self._session.id, tool_call=asked, options=options)
            )
            id = getattr(answer.outcome, "option_id", None)
            chosen = next((option for option in options if option.option_id == id), None)
        except RpcError as exc:
            raise McpFailure(f"nobody could be asked about the MCP server {config.name!r}: {exc.message}") from exc
        finally:
            allowed = chosen is not None and chosen is not REJECT
            with contextlib.suppress(Error):
                status: s.ToolCallStatus = "completed" if allowed else "failed"
                await self._session.update(s.ToolCallUpdated(tool_call_id=call.tool_call_id, status=status))
        return chosen


def _told(config: s.McpServer, parts: Mapping[str, str], changed: list[str] | None) -> str:
    """The text of a question about a server: everything that runs or is reached, without its credentials."""
    redactor = redactor_of(config)

    def shown(text: str) -> str:
        return visible(redactor.text(text), limit=SHOWN)

    if isinstance(config, s.McpServerStdio):
        words = redactor.value([config.command, *config.args])
        lines = [
            "Command: " + " ".join(visible(json.dumps(word, ensure_ascii=False), limit=SHOWN) for word in words)
        ]
        lines.append(f"Program: {shown(parts['where its program is']) or 'not found'}")
        lines += [
            f"SHA-256 of {shown(name.removeprefix('its '))}: {value}"
            for name, value in parts.items()
            if _is_hash(name)
        ]
        names = [visible(each.name, limit=SHOWN) for each in config.env]
        lines += [f"Variables: {', '.join(names)}"] if names else []
    else:
        assert isinstance(config, s.McpServerHttp | s.McpServerSse)
        lines = [f"Address: {shown(config.url)}"]
        lines += [f"Headers: {', '.join(visible(each.name) for each in config.headers)}"] if config.headers else []
    if changed:
        what = ", ".join(shown(name) for name in changed if name)
        lines.insert(0, f"It was approved before, and since then this has changed: {what}.")
    return "\n".join(lines)


def _is_hash(name: str) -> bool:
    return name == "its program" or name.startswith("its file ")
