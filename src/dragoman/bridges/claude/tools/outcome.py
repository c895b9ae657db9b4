"""A tool call after it has run: its status, its output, and the changes it made to files."""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from .... import schema as s
from ....foundation.documents import Json, members, strings_in
from ....schema.tools import ToolCallContent
from .plans import output_texts
from .shown import Input, absolute, objects, plain_name, texts, words

_ERROR_MARKS = re.compile(r"</?tool_use_error>")
_EXIT_CODE = re.compile(r"\AExit code (\d+)\n?")
_TOOLS_USED = "<tools-used-before-summary>"
RESULTS = {  # blocks with results: of Claude's own tools, and of those that run at the provider
    "tool_result",
    "mcp_tool_result",
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
}


class Outcome(Struct, frozen=True):
    """The result of a tool call."""

    failed: bool
    content: Sequence[ToolCallContent] = ()
    locations: Sequence[s.ToolCallLocation] = ()
    title: str | None = None
    output: str | None = None  # the output of a command, as a terminal shows it
    exit_code: int | None = None


def outcome(name: str, given: Input, block: Mapping[str, Json], structured: Json, cwd: str) -> Outcome:
    """The result of a call; `structured` is the tool's own result, if the program reports it."""
    result = block.get("content")
    if block.get("is_error") or _is_provider_error(result):
        return _failed(plain_name(name), result)
    tool = plain_name(name)
    if tool in ("Bash", "PowerShell"):
        return _ran(result, structured)
    if tool in ("Edit", "Write", "MultiEdit") and isinstance(structured, dict):
        return _changed(structured, cwd)
    if tool in ("Edit", "Write", "MultiEdit", "NotebookEdit", "EnterPlanMode"):
        return Outcome(False)
    if tool == "ExitPlanMode":
        plan = words(structured, "plan") if isinstance(structured, dict) else ""
        return Outcome(False, texts(plan or words(given, "plan")), title="Exited Plan Mode")
    if tool == "Read":
        return Outcome(False, _read(result, structured))
    if tool in ("Agent", "Task") and (report := _report(structured)):
        return Outcome(False, texts(*report))
    if tool in ("WebSearch", "web_search"):
        return Outcome(False, _hits(result, structured))
    return Outcome(False, _content(result))


def fenced(text: str, language: str = "") -> str:
    """A text in a fence that does not occur in it."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}"


def _is_provider_error(result: Json) -> bool:
    return isinstance(result, dict) and str(result.get("type", "")).endswith("_error")


def _failed(tool: str, result: Json) -> Outcome:
    told = (
        "\n".join(output_texts(result)) if not isinstance(result, dict) else str(result.get("error_code", result))
    )
    told = _ERROR_MARKS.sub("", told).strip()
    if tool in ("Bash", "PowerShell") and (code := _EXIT_CODE.match(told)):
        output = told[code.end() :]
        return Outcome(True, texts(fenced(told)), output=output, exit_code=int(code[1]))
    return Outcome(True, texts(fenced(told) if told else ""))


def _ran(result: Json, structured: Json) -> Outcome:
    """The output of a command; images are shown as images."""
    images = _images(result)
    if isinstance(structured, dict) and "stdout" in structured:
        parts = [words(structured, "stdout"), words(structured, "stderr")]
        output = "\n".join(part.rstrip("\n") for part in parts if part.strip())
    else:
        output = "\n".join(output_texts(result))
    return Outcome(False, images or texts(fenced(output, "console") if output else ""), output=output, exit_code=0)


def _changed(structured: Mapping[str, Json], cwd: str) -> Outcome:
    """A diff for each changed part of a file, and its location."""
    path = absolute(words(structured, "filePath"), cwd)
    hunks = objects(structured.get("structuredPatch"))
    if not hunks and structured.get("type") == "create":
        return Outcome(False, [s.Diff(path=path, old_text=None, new_text=words(structured, "content"))])
    diffs = [s.Diff(path=path, old_text=_side(hunk, " -"), new_text=_side(hunk, " +")) for hunk in hunks]
    places = [s.ToolCallLocation(path=path, line=_line(hunk)) for hunk in hunks]
    return Outcome(False, diffs, places)


def _side(hunk: Mapping[str, Json], marks: str) -> str:
    lines = strings_in(hunk.get("lines"))
    return "\n".join(line[1:] for line in lines if line[:1] in marks)


def _line(hunk: Mapping[str, Json]) -> int | None:
    start = hunk.get("newStart")
    return start if isinstance(start, int) and start > 0 else None


def _read(result: Json, structured: Json) -> Sequence[ToolCallContent]:
    """The file's text without line numbers and reminders, if the program reports it."""
    read = members(structured)
    content = members(read.get("file")).get("content")
    if isinstance(content, str) and read.get("type") == "text":
        return texts(fenced(content))
    return _images(result) or texts(*(fenced(text) for text in output_texts(result)))


def _report(structured: Json) -> list[str]:
    """The report of a subagent, without the list of its tools, which is for the model."""
    told = output_texts(structured.get("content")) if isinstance(structured, dict) else []
    return [text for text in told if not text.startswith(_TOOLS_USED)]


def _hits(result: Json, structured: Json) -> Sequence[ToolCallContent]:
    """The pages that were found, each on a line."""
    groups = structured.get("results") if isinstance(structured, dict) else None
    hits: list[Json] = []
    for group in groups if isinstance(groups, list) else []:
        hits += group.get("content") or [] if isinstance(group, dict) else []
    hits = hits or (result if isinstance(result, list) else [])
    lines = [
        f"{hit['title']} ({hit['url']})" for hit in hits if isinstance(hit, dict) and {"title", "url"} <= set(hit)
    ]
    return texts("\n".join(lines)) or _content(result)


def _images(result: Json) -> list[ToolCallContent]:
    blocks: Sequence[Json] = result if isinstance(result, list) else ()
    sources = [b["source"] for b in blocks if isinstance(b, dict) and b.get("type") == "image" and "source" in b]
    return [
        s.Content(content=s.ImageContent(data=source["data"], mime_type=source.get("media_type") or "image/png"))
        for source in sources
        if isinstance(source, dict) and isinstance(source.get("data"), str)
    ]


def _content(result: Json) -> Sequence[ToolCallContent]:
    return [*texts(*output_texts(result)), *_images(result)]
