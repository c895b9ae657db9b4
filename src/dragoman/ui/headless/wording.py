"""Short descriptions of operations, content, places, logins and errors."""

from collections.abc import Mapping, Sequence
from shlex import quote

from ... import schema as s
from ...client.client import Client
from ...dialects.engine.shapes import CARRIED
from ...errors import AgentStartError, AuthRequired, Error, RpcError
from ...foundation.documents import document
from ...foundation.suggesting import nearest
from ...host.display import shown_command
from ...host.processes import Launch, known_agents
from ..legible import one_line

DOINGS = {
    "file_read": "read {path}",
    "file_write": "write {path}",
    "file_delete": "delete {path}",
    "network_access": "reach {url}",
    "mcp_tool": "call {tool} of {server}",
}
OWN_PROGRAM = "log in with the agent's own program{where}, then try again"


def is_worth_a_line(seconds: int) -> bool:
    """Whether a reader of lines should be told again how long a step has taken."""
    return seconds == 5 or (seconds > 0 and seconds % 30 == 0)


def doing(event: Mapping[str, object]) -> str:
    """A short description of the operation of a decision."""
    operation = event.get("operation")
    if operation == "terminal_execute":
        argv = [str(word) for word in words] if isinstance(words := event["argv"], Sequence) else []
        return one_line(f"run {argv[-1] if event['shell'] else ' '.join(argv)}", 200)
    if operation == "claim":
        claims = document(event["claims"])
        title, command = str(claims["title"] or "what the agent asked for"), str(claims.get("command") or "")
        return one_line(f"{title} (runs: {command})" if command and command not in title else title, 200)
    return one_line(DOINGS[str(operation)].format_map(event), 200)


def plain(block: s.ContentBlock) -> str:
    """A content block as text."""
    match block:
        case s.TextContent(text=text):
            return text
        case s.ResourceLink(name=name, uri=uri):
            return f"[{name}]({uri})"
        case s.EmbeddedResource(resource=resource):
            return f"[{resource.uri}]"
        case s.ImageContent() | s.AudioContent():
            return f"[{block.mime_type}]"
        case _:
            return "[content of an unknown kind]"


def where(location: s.ToolCallLocation, cwd: str) -> str:
    """A place in a file as editors and compilers write it, with a range if the agent's dialect has one."""
    path = location.path.removeprefix(f"{cwd}/") if cwd else location.path
    by_dialect = (location.meta or {}).get(CARRIED)
    told = [each for each in by_dialect.values() if isinstance(each, dict)] if isinstance(by_dialect, dict) else []
    column, last, end = (
        next((each[name] for each in told if isinstance(each.get(name), int)), None)
        for name in ("column", "endLine", "endColumn")
    )
    first = ":".join(str(part) for part in (path, location.line, column) if part is not None)
    until = ":".join(str(part) for part in (last, end) if part is not None)
    return f"{first}-{until}" if until else first


def login_hint(said: str, methods: Sequence[s.AuthMethod | s.Raw], agent: Launch) -> str:
    """How to log in: the agent's message, its methods, and the command to run if one is known."""
    where = " on the machine where it runs" if agent.url else ""
    lines, told = [f"the agent wants you to log in first{f'; it says: {said}' if said else ''}"], bool(agent.login)
    for method in methods:
        if isinstance(method, s.Raw):
            continue
        command = _login_command(method, agent)
        way = f"{method.name}: {method.description.strip()}" if method.description else method.name or method.id
        how = (
            f"run{where}: {shown_command(command)}"
            if command
            else f"to log in, run again with --login {quote(method.id)}"
        )
        lines.append(one_line(f"{way}; {how}"))
        told = True
    lines.append(f"to log in: {agent.login}" if agent.login else "" if told else OWN_PROGRAM.format(where=where))
    return "\n".join(line for line in lines if line)


def _login_command(method: s.AuthMethod, agent: Launch) -> list[str]:
    """The agent's own command with the arguments of a login, or the command that older agents name."""
    if isinstance(method, s.AuthMethodTerminal) and not agent.url:
        settings = [f"{name}={value}" for name, value in method.env.items()]
        return [*(["env", *settings] if settings else []), agent.command, *agent.args, *method.args]
    older = (method.meta or {}).get("terminal-auth")
    if not isinstance(older, dict):
        return []
    words = [older.get("command"), *(older.get("args") or [])]
    return words if all(isinstance(word, str) for word in words) else []


def failure_told(exc: Error, agent: Launch, client: Client) -> str:
    """The error, and what to do about it."""
    match exc:
        case AuthRequired():
            said = "" if exc.message == AuthRequired().message else exc.message
            return login_hint(said, client.auth_methods, agent)
        case RpcError():
            return f"the agent answered with an error: {exc}"
        case AgentStartError() if agent.install and not agent.is_installed:
            return f"{exc}; to install it: {agent.install}"
        case AgentStartError() if not (agent.name or agent.url or agent.is_installed):
            near = nearest(agent.command, known_agents())
            return f"{exc}; {f'did you mean {near!r}? See' if near else 'see'} dragoman agents list"
        case _:
            return str(exc)
