"""Tool calls of D3: known by the name of their tool, with one output each."""

from typing import TYPE_CHECKING

from ...foundation.documents import Document, Json, document, members
from ..engine.shapes import Fields, Pair, Words
from ..engine.translator import Translator
from .content import BLOCK, DIFF

if TYPE_CHECKING:
    from .updates import DraftUpdates

# What a tool's name tells of its kind, and the name of a tool of which only the kind is known.
TOOLS = {
    "fs/read_text_file": "read",
    "fs/write_text_file": "edit",
    "terminal/create": "execute",
    "read": "read",
    "write": "edit",
    "edit": "edit",
    "delete": "delete",
    "move": "move",
    "rename": "move",
    "search": "search",
    "grep": "search",
    "glob": "search",
    "fetch": "fetch",
    "http": "fetch",
    "web": "fetch",
    "bash": "execute",
    "shell": "execute",
    "execute": "execute",
    "terminal": "execute",
    "think": "think",
    "plan": "think",
}
TOOL_NAMES = {"read": "fs/read_text_file", "edit": "fs/write_text_file", "execute": "terminal/create"}

STATUS = Words(
    {
        "pending": "pending",
        "awaiting_permission": "pending",
        "in_progress": "in_progress",
        "completed": "completed",
        "failed": "failed",
        "denied": "failed",
        "cancelled": "failed",
    }
)
LOCATION = Fields(carried=["column", "endLine", "endColumn"])


def kind_of(tool: str) -> str:
    """What kind of tool a name tells of."""
    if tool in TOOLS:
        return TOOLS[tool]
    words = tool.lower().replace("/", "_").replace("-", "_").split("_")
    return next((TOOLS[word] for word in words if word in TOOLS), "other")


def title_of(tool: str, data: Document) -> str:
    """What a person is told of a tool call of which its tool, its input and its place are known."""
    known = {**document(data.get("location") or {}), **members(data.get("input"))}
    subject = next((known[name] for name in ("command", "url", "query", "path") if known.get(name)), "")
    return f"{tool} {subject}".rstrip()


# Tool output


def _output_inward(output: Document, t: Translator) -> Json:
    match output.get("type"):
        case "diff":
            return DIFF.inward(output, t)
        case "terminal":
            return TERMINAL.inward(output, t)
    return {"type": "content", "content": BLOCK.inward(output, t)}


def _output_outward(content: Document, t: "DraftUpdates") -> Json:
    match content.get("type"):
        case "diff":
            return DIFF.outward(content, t)
        case "terminal":
            return {**t.shown_terminal(content.get("terminalId")), **TERMINAL.outward(content, t)}
        case "content":
            if content.get("_meta"):
                t.lose("margins")
            return BLOCK.outward(content["content"], t)
    t.lose("tool content")
    return content


TERMINAL = Fields(carried=["command", "exitCode", "stdout", "stderr"])
OUTPUT = Pair(_output_inward, _output_outward)
