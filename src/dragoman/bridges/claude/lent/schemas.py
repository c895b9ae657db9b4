"""The descriptions, for the model, of the tools that run through the client."""

from collections.abc import Mapping

from ....foundation.documents import Document, Json


def _object(required: list[str], **properties: Mapping[str, Json]) -> Document:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _text(told: str) -> Document:
    return {"type": "string", "description": told}


def _count(told: str) -> Document:
    return {"type": "number", "description": told}


def _switch(told: str) -> Document:
    return {"type": "boolean", "description": told}


_PATH = _text("The absolute path of the file")

SCHEMAS: Mapping[str, Mapping[str, Json]] = {
    "Read": {
        "description": "Reads a text file as the user's editor has it, with changes that are not saved yet. "
        "Gives numbered lines, 2000 at most; read on with offset. Use it instead of cat, head or tail.",
        "inputSchema": _object(
            ["file_path"],
            file_path=_PATH,
            offset=_count("The line to begin at, from 1"),
            limit=_count("How many lines to read"),
        ),
        "annotations": {"title": "Read file", "readOnlyHint": True},
    },
    "Write": {
        "description": "Writes a whole text file through the user's editor; an existing file is replaced. "
        "Prefer Edit for files that exist.",
        "inputSchema": _object(["file_path", "content"], file_path=_PATH, content=_text("The whole new content")),
        "annotations": {"title": "Write file", "readOnlyHint": False, "destructiveHint": False},
    },
    "Edit": {
        "description": "Replaces a text in a file through the user's editor, in what it shows, saved or not. "
        "old_string must occur exactly once, unless replace_all is set. Read the file first.",
        "inputSchema": _object(
            ["file_path", "old_string", "new_string"],
            file_path=_PATH,
            old_string=_text("The text to replace, exactly as it is in the file, without line numbers"),
            new_string=_text("The text to put there"),
            replace_all=_switch("Replace every occurrence"),
        ),
        "annotations": {"title": "Edit file", "readOnlyHint": False, "destructiveHint": False},
    },
    "Bash": {
        "description": "Runs a command in a terminal of the user's editor, in the session's directory. "
        "Quote paths with spaces. Use Read, Edit and Write for files instead of cat, sed or echo.",
        "inputSchema": _object(
            ["command"],
            command=_text("The command"),
            timeout=_count("Milliseconds until the command is stopped; 120000 if not given, 600000 at most"),
            description=_text("What the command does, in five to ten words"),
            run_in_background=_switch("Return at once; BashOutput reads what it prints"),
        ),
        "annotations": {"title": "Run a command", "readOnlyHint": False, "openWorldHint": True},
    },
    "BashOutput": {
        "description": "Gives what a command in the background has printed since the last time.",
        "inputSchema": _object(
            ["task_id"],
            task_id=_text("The name that Bash gave"),
            block=_switch("Wait until the command ends"),
            timeout=_count("Milliseconds to wait at most"),
        ),
        "annotations": {"title": "Output of a command", "readOnlyHint": True},
    },
    "KillShell": {
        "description": "Stops a command in the background.",
        "inputSchema": _object(["shell_id"], shell_id=_text("The name that Bash gave")),
        "annotations": {"title": "Stop a command", "readOnlyHint": False},
    },
}
