"""The tools that an MCP host gets: what each is called, takes and gives."""

from collections.abc import Mapping

import mcp_types as types
import msgspec

from ...errors import Error
from ...foundation.documents import Document

SESSION = {"type": "string", "description": "id of the session, as start_session gave it"}
DIRECTORY = {"type": "string", "description": "absolute path of the working directory (default: the workspace)"}
TURN = {
    "type": "object",
    "properties": {
        "sessionId": {"type": "string"},
        "stopReason": {"type": "string"},
        "text": {"type": "string", "description": "what the agent said"},
        "toolCalls": {"type": "array", "items": {"type": "object"}},
        "resources": {"type": "array", "items": {"type": "string"}, "description": "changed files, as diffs"},
    },
    "required": ["sessionId", "stopReason", "text"],
}


def _tool(
    name: str,
    told: str,
    properties: Document,
    *required: str,
    output: Mapping[str, object] | None = None,
    may_be_task: bool = False,
) -> types.Tool:
    return types.Tool(
        name=name,
        title=name.replace("_", " ").capitalize(),
        description=told,
        input_schema={
            "type": "object",
            "properties": dict(properties),
            "required": list(required),
            "additionalProperties": False,
        },
        output_schema=None if output is None else dict(output),
        execution=types.ToolExecution(task_support="optional") if may_be_task else None,
    )


TOOLS = [
    _tool("start_session", "Start a conversation with the agent in a directory.", {"cwd": DIRECTORY}),
    _tool(
        "prompt",
        "Send the agent a message and wait until its turn is over. Its updates arrive as progress; it may ask for "
        "permissions meanwhile. Without a sessionId a new session is started.",
        {
            "sessionId": SESSION,
            "text": {"type": "string", "description": "what to tell the agent"},
            "files": {"type": "array", "items": {"type": "string"}, "description": "paths to mention"},
            "cwd": DIRECTORY,
        },
        "text",
        output=TURN,
        may_be_task=True,
    ),
    _tool("cancel", "Cancel the turn that runs in a session.", {"sessionId": SESSION}, "sessionId"),
    _tool("list_sessions", "List the agent's stored sessions.", {"cwd": DIRECTORY}),
    _tool(
        "load_session",
        "Open a stored session again; gives what was said in it.",
        {"sessionId": SESSION, "cwd": DIRECTORY},
        "sessionId",
    ),
    _tool(
        "fork_session",
        "Start a new session with the history of another one.",
        {"sessionId": SESSION, "cwd": DIRECTORY},
        "sessionId",
    ),
    _tool(
        "set_mode",
        "Switch a session to another of its modes.",
        {"sessionId": SESSION, "mode": {"type": "string", "description": "id of the mode"}},
        *("sessionId", "mode"),
    ),
    _tool(
        "set_option",
        "Set one of a session's options, such as its model.",
        {
            "sessionId": SESSION,
            "option": {"type": "string", "description": "id of the option"},
            "value": {"type": ["string", "boolean"]},
        },
        *("sessionId", "option", "value"),
    ),
    _tool("close_session", "Close a session; the agent may keep it stored.", {"sessionId": SESSION}, "sessionId"),
]


def _arguments(tool: types.Tool) -> type[msgspec.Struct]:
    """What a call of a tool may have, as its schema says."""
    kinds = {"string": str, "array": list[str]}
    required = tool.input_schema["required"]
    fields: list[tuple[str, object] | tuple[str, object, object]] = []
    for name, schema in tool.input_schema["properties"].items():
        kind = kinds[schema["type"]] if isinstance(schema["type"], str) else str | bool
        fields.append((name, kind) if name in required else (name, kind | None, None))
    return msgspec.defstruct(tool.name, fields, kw_only=True, forbid_unknown_fields=True)


ARGUMENTS = {tool.name: _arguments(tool) for tool in TOOLS}


def checked(params: types.CallToolRequestParams) -> dict[str, object]:
    """The arguments of a call; raises an Error for a tool that is not there, and for arguments that do not fit."""
    if params.name not in ARGUMENTS:
        raise Error(f"there is no tool {params.name!r}; there are: {', '.join(ARGUMENTS)}")
    arguments = params.arguments or {}
    try:
        msgspec.convert(arguments, ARGUMENTS[params.name])
    except msgspec.ValidationError as exc:
        raise Error(f"the arguments do not fit {params.name}: {exc}") from exc
    return arguments
