"""Opens the session of a run, new or earlier, and sets its mode and options."""

import os
from collections.abc import Sequence

from ... import schema as s
from ...client.client import Client
from ...client.session import Session
from ...errors import ResourceNotFound
from ...foundation.suggesting import nearest
from ...roles import offered
from .terms import RunOptions, WrongArgument

TRUE, FALSE = ("true", "on", "yes", "1"), ("false", "off", "no", "0")


async def open_session(client: Client, options: RunOptions) -> Session:
    """A new session, the one with this id, or the latest of this directory."""
    cwd, servers = options.cwd, options.mcp_servers
    is_taken = offered(client.agent_capabilities, "mcp_capabilities.http")
    if not is_taken and (remote := [server.name for server in servers if isinstance(server, s.McpServerHttp)]):
        raise WrongArgument(f"this agent takes no MCP servers by URL, such as {remote[0]!r}; name a command")
    session_id = await _latest(client, cwd) if options.latest else options.session
    if session_id is None:
        return await client.new_session(cwd, mcp_servers=servers)
    try:
        if offered(client.agent_capabilities, "session_capabilities.resume"):
            return await client.resume_session(session_id, cwd, mcp_servers=servers)
        if offered(client.agent_capabilities, "load_session"):
            return await client.load_session(session_id, cwd, mcp_servers=servers)
    except ResourceNotFound:
        raise WrongArgument(f"this agent knows no session {session_id!r}") from None
    raise WrongArgument("this agent cannot continue an earlier session; leave out --session and --continue")


async def _latest(client: Client, cwd: str) -> str:
    if not offered(client.agent_capabilities, "session_capabilities.list"):
        raise WrongArgument("this agent does not list its sessions; name one with --session ID")
    here = os.path.realpath(cwd)
    sessions = [session for session in await client.list_sessions(cwd) if os.path.realpath(session.cwd) == here]
    if not sessions:
        raise WrongArgument(f"this agent has no session in {cwd}; leave out --continue to start one")
    # Agents that send no times list the latest session first, and max keeps the first of equals.
    return max(sessions, key=lambda session: session.updated_at or "").session_id


async def log_in(client: Client, id: str) -> None:
    """Log in by one of the agent's methods."""
    ways = {way.id: way for way in client.auth_methods if not isinstance(way, s.Raw)}
    if (way := ways.get(id)) is None:
        raise WrongArgument(f"this agent has no login {id!r}; {_known('logins', list(ways), id)}")
    if isinstance(way, s.AuthMethodTerminal):
        words = " ".join(way.args or ())
        raise WrongArgument(f"for the login {id!r}, start the agent's own program in a terminal, with: {words}")
    await client.authenticate(id)


async def set_mode(session: Session, mode: str) -> None:
    """Set the session's mode, which is a config option of newer agents."""
    modes = [available.id for available in session.modes.available_modes] if session.modes else []
    option = next((option for option in _selects(session) if option.category == "mode"), None)
    if not modes and option is not None:
        await _set(session, option, mode)
        return
    if mode not in modes:
        raise WrongArgument(f"this agent has no mode {mode!r}; {_known('modes', modes, mode)}")
    await session.set_mode(mode)


async def set_option(session: Session, id: str, value: str) -> None:
    """Set one of the session's options."""
    known = [option for option in session.config_options if not isinstance(option, s.Raw)]
    option = next((option for option in known if option.id == id), None)
    if option is None:
        raise WrongArgument(f"this agent has no option {id!r}; {_known('options', [o.id for o in known], id)}")
    await _set(session, option, value)


async def _set(session: Session, option: s.SessionConfigSelect | s.SessionConfigBoolean, value: str) -> None:
    if isinstance(option, s.SessionConfigBoolean):
        if value.lower() not in (*TRUE, *FALSE):
            raise WrongArgument(f"the option {option.id!r} is on or off, not {value!r}")
        await session.set_config_option(option.id, value.lower() in TRUE)
        return
    values = _values(option.options)
    if value not in values:
        raise WrongArgument(f"the option {option.id!r} has no value {value!r}; {_known('values', values, value)}")
    await session.set_config_option(option.id, value)


def _selects(session: Session) -> list[s.SessionConfigSelect]:
    return [option for option in session.config_options if isinstance(option, s.SessionConfigSelect)]


def _values(entries: Sequence[s.SessionConfigSelectEntry]) -> list[str]:
    found = []
    for entry in entries:
        found += _values(entry.options) if isinstance(entry, s.SessionConfigSelectGroup) else [entry.value]
    return found


def _known(what: str, names: Sequence[str], wanted: str) -> str:
    if near := nearest(wanted, names):
        return f"did you mean {near!r}? Its {what} are {', '.join(names)}"
    return f"its {what} are {', '.join(names)}" if names else f"it has no {what}"
