"""Questions for the user.

Every text of a question is safe to show, and the agent's own words are marked as such.
"""

import hashlib
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec import Struct

from ..addresses import host_warning
from ..display import LEFT_OUT, LIMIT, is_elided, scripts, shortened, shown_command, visible
from ..operations import Execute, FileOperation, FileWrite, McpTool, NetworkAccess, Operation
from .approvals import Scope

DETAIL_LIMIT = 64_000  # characters shown of a diff


class Option(Struct, frozen=True):
    """One possible answer; `scope` is how long it holds.

    `times`: how many of the equal waiting operations a yes of the scope `once` covers.
    """

    id: str
    label: str
    allows: bool
    scope: Scope = "once"
    times: int = 1


class Question(Struct, frozen=True, kw_only=True):
    """Something to ask the user; every text in it can be shown as it is.

    `operation` is exactly the operation that will be done; without it, `text` is the agent's claim, which cannot be
    checked.  `count` equal operations wait for the answer; the user may allow one of them, or all by another
    option.
    """

    session_id: str
    title: str
    text: str
    options: tuple[Option, ...]
    warnings: tuple[str, ...] = ()
    operation: Operation | None = None
    tool_call_id: str = ""  # of the call that the agent asks about, if it does
    detail: str = ""  # such as a diff
    key: str = ""  # equal for questions that show exactly the same
    count: int = 1

    @property
    def is_whole(self) -> bool:
        """Whether the text is complete."""
        return not is_elided(self.text)

    def option(self, id: object) -> Option | None:
        """Give the option of this id; None if none was offered under it."""
        return next((option for option in self.options if isinstance(id, str) and option.id == id), None)

    def repeated(self, count: int) -> "Question":
        """This question, asked once for this number of equal operations."""
        if count == 1:
            return self
        options = list(self.options)
        for position, option in enumerate(options):
            if option.allows and option.scope == "once":
                each = Option(f"{option.id}_each", f"{option.label} (all {count})", True, times=count)
                options.insert(position + 1, each)
                break
        told = f"the same is asked {count} times at once; a yes to one of them is for that one alone"
        return msgspec.structs.replace(self, options=tuple(options), warnings=(*self.warnings, told), count=count)


Asker = Callable[[Question], Awaitable[str | None]]  # gives the id of the option the user chose; None for none

DENY_ONCE = Option("reject_once", "Deny", allows=False)
DENY_TURN = Option("reject_turn", "Deny everything for the rest of this turn", allows=False)
_ALLOW: dict[Scope, Option] = {
    "once": Option("allow_once", "Allow once", allows=True),
    "session": Option("allow_session", "Allow exactly this in this session", allows=True, scope="session"),
    "workspace": Option("allow_workspace", "Allow exactly this in this workspace", allows=True, scope="workspace"),
    "always": Option("allow_always", "Always allow exactly this", allows=True, scope="always"),
}
_TITLES = {
    "file_read": "Read a file?",
    "file_write": "Write a file?",
    "file_delete": "Delete a file?",
    "terminal_execute": "Run a command?",
    "network_access": "Use the network?",
    "mcp_tool": "Call an MCP tool?",
}


def about(
    operation: Operation,
    session_id: str,
    *,
    scopes: Sequence[Scope] = ("once",),
    warnings: Sequence[str] = (),
    detail: str = "",
) -> Question:
    """The question whether the host may do something."""
    text = _text(operation)
    offered: Sequence[Scope] = ("once",) if is_elided(text) else scopes  # what is shown in part is allowed once
    told = tuple(dict.fromkeys(visible(warning) for warning in (*warnings, *_warnings(operation))))
    shown = visible(detail, limit=DETAIL_LIMIT, lines=True)
    seen = msgspec.json.encode((operation.fingerprint(), offered, told, shown))
    return Question(
        session_id=session_id,
        title=_TITLES[operation.kind],
        text=text,
        options=(*(_ALLOW[scope] for scope in offered), DENY_ONCE, DENY_TURN),
        warnings=told,
        operation=operation,
        detail=shown,
        key=f"{operation.kind} {hashlib.sha256(seen).hexdigest()}",
    )


def _text(operation: Operation) -> str:
    match operation:
        case Execute():
            return shown_command(operation.argv, operation.env, operation.cwd, operation.shell)
        case FileWrite():
            return f"{visible(operation.path)}\n{'a new file' if operation.creates else 'replaces what is there'}"
        case FileOperation():
            return visible(operation.path)
        case NetworkAccess():
            return visible(operation.url)
        case McpTool():
            return f"{visible(operation.tool)} of {visible(operation.server)}\n{shown_json(operation.arguments)}"


def shown_json(value: object) -> str:
    """A value as JSON; long parts are cut before it is encoded."""
    kept, is_whole = shortened(value, 2 * LIMIT)
    return visible(msgspec.json.encode(kept).decode()) + ("" if is_whole else LEFT_OUT)


def _warnings(operation: Operation) -> list[str]:
    match operation:
        case NetworkAccess():
            return [warning] if (warning := host_warning(operation.url)) else []
        case Execute() if not operation.argv[0].isascii():
            return [f"the program's name has letters that are {' and '.join(scripts(operation.argv[0]))}"]
        case _:
            return []
