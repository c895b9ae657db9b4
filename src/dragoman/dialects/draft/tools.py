"""Tool calls of D3: each has the name of its tool and one output."""

from typing import TYPE_CHECKING

from ...foundation.documents import Document, Json, document, members
from ..engine.shapes import Fields, Pair, Words
from ..engine.translator import Translator
from .content import BLOCK, DIFF

if TYPE_CHECKING:
    from .updates import DraftUpdates

# Kinds by the names of tools, and a name for a tool of which only the kind is known.
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
    """The kind of a tool, from its name."""
    if tool in TOOLS:
        return TOOLS[tool]
    words = tool.lower().replace("/", "_").replace("-", "_").split("_")
    return next((TOOLS[word] for word in words if word in TOOLS), "other")


def title_of(tool: str, data: Document) -> str:
    """The title of a tool call, made from its tool, input and location."""
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
