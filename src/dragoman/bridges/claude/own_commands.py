"""Slash commands that the bridge answers itself: `/mcp` and `/usage`, which in the program need a terminal."""

import re
from collections.abc import Awaitable, Callable, Sequence

from ...errors import Error
from ...foundation.documents import Json, members
from .program.running import Message
from .tools.shown import Input, objects

Request = Callable[..., Awaitable[Message]]

ACTIONS = ("reconnect", "enable", "disable")
STATES = {
    "failed": "failed",
    "needs-auth": "needs a login",
    "pending": "connecting",
    "connected": "connected",
    "disabled": "disabled",
}
MAX_ERROR = 200  # characters of a server's error
WINDOWS = {
    "five_hour": "5 hours",
    "seven_day": "7 days",
    "seven_day_opus": "7 days, Opus",
    "seven_day_sonnet": "7 days, Sonnet",
}
_SPECIAL = re.compile(r"([\\`*_\[\]<>|])")


async def own_answer(prompt: str, request: Request) -> str | None:
    """The answer to one of our commands, as Markdown; None for any other prompt."""
    words = prompt.split()
    if words[:1] == ["/usage"] and len(words) == 1:
        return usage_report(await request("get_usage"))
    if words[:1] == ["/mcp"] and (len(words) == 1 or words[1] in ACTIONS):
        return await _mcp(words[1:], request)
    return None


async def _mcp(words: Sequence[str], request: Request) -> str:
    """Apply the command to one server or all of them, then report the state of all."""
    done: list[str] = []
    if words:
        action, name = words[0], " ".join(words[1:])
        known = _servers(await request("mcp_status"))
        wanted = [str(server.get("name")) for server in known if name in ("", "all", server.get("name"))]
        if not wanted:
            done = [f"There is no MCP server {_plain(name)}." if name else "There are no MCP servers."]
        for server in wanted:
            done.append(await _changed(action, server, request))
    return "\n\n".join(["\n".join(done), mcp_report(await request("mcp_status"))]).strip()


async def _changed(action: str, server: str, request: Request) -> str:
    try:
        if action == "reconnect":
            await request("mcp_reconnect", serverName=server)
        else:
            await request("mcp_toggle", serverName=server, enabled=action == "enable")
    except Error as exc:
        return f"- {_plain(server)}: cannot {action}: {_plain(str(exc)[:MAX_ERROR])}"
    return f"- {_plain(server)}: {action}{'ed' if action == 'reconnect' else 'd'}"


def mcp_report(told: Input) -> str:
    """The state of a session's MCP servers."""
    lines = []
    for server in _servers(told):
        state = str(server.get("status"))
        parts = [STATES.get(state, _plain(state))]
        if isinstance(tools := server.get("tools"), list):
            parts.append(f"{len(tools)} tools")
        if server.get("error"):
            parts.append(_plain(str(server["error"])[:MAX_ERROR]))
        lines.append(f"- **{_plain(str(server.get('name')))}**: {', '.join(parts)}")
    return "\n".join(["MCP servers:", *lines]) if lines else "No MCP servers are configured."


def usage_report(told: Input) -> str:
    """The usage of a session, and the rest of the plan's limits."""
    session, limits = members(told.get("session")), members(told.get("rate_limits"))
    lines = [f"Cost of this session: ${_number(session.get('total_cost_usd')):.4f}"]
    for model, counts in members(session.get("model_usage")).items():
        used = [f"{int(_number(members(counts).get(key))):,} {name}" for key, name in COUNTERS.items()]
        lines.append(f"- {_plain(model)}: {', '.join(used)}")
    for key, name in WINDOWS.items():
        window = members(limits.get(key))
        if window.get("utilization") is not None:
            resets = f", resets {_plain(str(window['resets_at']))}" if window.get("resets_at") else ""
            lines.append(f"- {name}: {_number(window['utilization']):.0f} % used{resets}")
    return "\n".join(lines)


COUNTERS = {
    "inputTokens": "in",
    "outputTokens": "out",
    "cacheReadInputTokens": "read from the cache",
    "cacheCreationInputTokens": "written to the cache",
}


def _servers(told: Input) -> list[Input]:
    return objects(told.get("mcpServers"))


def _number(value: Json) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _plain(words: str) -> str:
    """A text in one line, with Markdown's marks escaped."""
    return _SPECIAL.sub(r"\\\1", " ".join(words.split()))
