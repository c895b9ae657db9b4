"""Claude's slash commands, for the client."""

import re
from collections.abc import Mapping, Sequence

from ... import schema as s
from ...foundation.documents import Json

# Commands that need Claude's own terminal, or for which the protocol has another way.
LEFT_OUT = {
    "clear",
    "cost",
    "keybindings-help",
    "login",
    "logout",
    "output-style:new",
    "release-notes",
    "todos",
}
OF_MCP = " (MCP)"


MCP_COMMAND = s.AvailableCommand(
    name="mcp",
    description="Show the MCP servers, or reconnect, enable or disable one or all of them",
    input=s.UnstructuredCommandInput(hint="[reconnect|enable|disable [<server>|all]]"),
)
USAGE_COMMAND = s.AvailableCommand(name="usage", description="Show what this session has cost and used")


def available_commands(
    told: Sequence[Mapping[str, Json]], terminal_only: Sequence[str] = ()
) -> list[s.AvailableCommand]:
    """The commands that work in a client; each name once."""
    found = {command.name: command for command in (MCP_COMMAND, USAGE_COMMAND)}
    for command in told:
        name = str(command.get("name") or "")
        if name in LEFT_OUT or name in terminal_only or name.startswith("__"):
            continue
        if name.endswith(OF_MCP):
            name = f"mcp:{name.removesuffix(OF_MCP)}"
        if not name or re.search(r"\s", name) or name in found:
            continue
        hint = command.get("argumentHint")
        hint = " ".join(map(str, hint)) if isinstance(hint, list) else hint
        found[name] = s.AvailableCommand(
            name=name,
            description=str(command.get("description") or ""),
            input=s.UnstructuredCommandInput(hint=str(hint)) if hint else None,
        )
    return list(found.values())
