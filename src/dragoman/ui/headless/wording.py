"""Things in a few words."""

from collections.abc import Mapping
from typing import Any

from ... import schema as s
from ..legible import one_line

DOINGS = {
    "file_read": "read {path}",
    "file_write": "write {path}",
    "file_delete": "delete {path}",
    "network_access": "reach {url}",
    "mcp_tool": "call {tool} of {server}",
}


def is_worth_a_line(seconds: int) -> bool:
    """Whether somebody who reads lines is to be told again how long something has taken."""
    return seconds == 5 or (seconds > 0 and seconds % 30 == 0)


def doing(event: Mapping[str, Any]) -> str:
    """What was decided on, in a few words."""
    operation = event.get("operation")
    if operation == "terminal_execute":
        argv = event["argv"]
        return one_line(f"run {argv[-1] if event['shell'] else ' '.join(argv)}", 200)
    if operation == "claim":
        claims = event["claims"]
        title, command = str(claims["title"] or "what the agent asked for"), claims.get("command")
        return one_line(f"{title} (runs: {command})" if command and command not in title else title, 200)
    return one_line(DOINGS[str(operation)].format_map(event), 200)


def plain(block: s.ContentBlock) -> str:
    """A content block in words."""
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
