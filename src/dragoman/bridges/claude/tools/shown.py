"""A tool call before it runs: its title, kind, locations and content."""

import os
import shlex
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from .... import schema as s
from ....foundation.documents import Json
from ....schema.tools import ToolCallContent

Input = Mapping[str, Json]

ACP = "mcp__acp__"  # the tools that run through the client are shown as the tools that they replace
SILENT = {"TodoWrite", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet"}  # tools that are shown as the plan


class Shown(Struct, frozen=True):
    """How a tool call is shown."""

    title: str
    kind: s.ToolKind = "other"
    locations: Sequence[s.ToolCallLocation] = ()
    content: Sequence[ToolCallContent] = ()


def plain_name(name: str) -> str:
    """The name of a tool; of one of ours, the name of the tool that it replaces."""
    return name.removeprefix(ACP)


def shown(name: str, given: Input, cwd: str) -> Shown:
    """How a tool call is shown; a part of its input may not have arrived yet."""
    describe = _TABLE.get(plain_name(name))
    return describe(given, cwd) if describe else Shown(name)


def words(given: Input, name: str) -> str:
    """A member of the input, if it is a text."""
    value = given.get(name)
    return value if isinstance(value, str) else ""


def objects(value: Json) -> list[Mapping[str, Json]]:
    """The objects in a list; none if the value is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def texts(*paragraphs: str) -> list[ToolCallContent]:
    """Each text that is not empty as content."""
    return [s.Content(content=s.TextContent(text=text)) for text in paragraphs if text]


def display_path(path: str, cwd: str) -> str:
    """A path, relative to the session's directory if it is inside."""
    return os.path.relpath(path, cwd) if path == cwd or path.startswith(cwd.rstrip("/") + "/") else path


def absolute(path: str, cwd: str) -> str:
    """An absolute path; a relative one is joined to the session's directory."""
    return os.path.normpath(os.path.join(cwd, path))


def _at(path: str, cwd: str, line: int | None = None) -> list[s.ToolCallLocation]:
    return [s.ToolCallLocation(path=absolute(path, cwd), line=line)] if path else []


def _number(given: Input, name: str) -> int | None:
    value = given.get(name)
    return value if isinstance(value, int) and value >= 0 else None


def _agent(given: Input, cwd: str) -> Shown:
    return Shown(words(given, "description") or "Task", "think", (), texts(words(given, "prompt")))


def _bash(given: Input, cwd: str) -> Shown:
    return Shown(words(given, "command") or "Terminal", "execute", (), texts(words(given, "description")))


def _read(given: Input, cwd: str) -> Shown:
    path, first, limit = words(given, "file_path"), _number(given, "offset"), _number(given, "limit")
    span = ""
    if limit:
        span = f" ({first or 1} - {(first or 1) + limit - 1})"
    elif first:
        span = f" (from line {first})"
    title = f"Read {display_path(path, cwd) if path else 'File'}{span}"
    return Shown(title, "read", _at(path, cwd, first or 1))


def _write(given: Input, cwd: str) -> Shown:
    path = words(given, "file_path")
    diff: list[ToolCallContent] = []
    if path and "content" in given:
        diff = [s.Diff(path=absolute(path, cwd), old_text=None, new_text=words(given, "content"))]
    return Shown(f"Write {display_path(path, cwd)}" if path else "Write", "edit", _at(path, cwd), diff)


def _edit(given: Input, cwd: str) -> Shown:
    path = words(given, "file_path")
    diff: list[ToolCallContent] = []
    if path and "new_string" in given:
        old, new = words(given, "old_string"), words(given, "new_string")
        diff = [s.Diff(path=absolute(path, cwd), old_text=old or None, new_text=new)]
    return Shown(f"Edit {display_path(path, cwd)}" if path else "Edit", "edit", _at(path, cwd), diff)


def _notebook(given: Input, cwd: str) -> Shown:
    path = words(given, "notebook_path")
    title = f"Edit Notebook {display_path(path, cwd)}" if path else "Edit Notebook"
    return Shown(title, "edit", _at(path, cwd), texts(words(given, "new_source")))


def _glob(given: Input, cwd: str) -> Shown:
    path, pattern = words(given, "path"), words(given, "pattern")
    parts = [f"`{part}`" for part in (display_path(path, cwd) if path else "", pattern) if part]
    return Shown(" ".join(["Find", *parts]), "search", _at(path, cwd))


def _grep(given: Input, cwd: str) -> Shown:
    command = ["grep"]
    command += [flag for flag in ("-i", "-n") if given.get(flag)]
    for flag in ("-A", "-B", "-C"):
        if (count := _number(given, flag)) is not None:
            command += [flag, str(count)]
    mode = given.get("output_mode")
    command += ["-l"] if mode == "files_with_matches" else ["-c"] if mode == "count" else []
    if (limit := _number(given, "head_limit")) is not None:
        command += ["|", "head", f"-{limit}"]
    command += [f'--include="{words(given, "glob")}"'] if words(given, "glob") else []
    command += [f"--type={words(given, 'type')}"] if words(given, "type") else []
    command += ["-P"] if given.get("multiline") else []
    command.append(f'"{words(given, "pattern")}"')
    command += [display_path(words(given, "path"), cwd)] if words(given, "path") else []
    return Shown(" ".join(command), "search")


def _fetch(given: Input, cwd: str) -> Shown:
    url = words(given, "url")
    return Shown(f"Fetch {url}" if url else "Fetch", "fetch", (), texts(words(given, "prompt")))


def _search(given: Input, cwd: str) -> Shown:
    title = f'"{words(given, "query")}"' if words(given, "query") else "Web search"
    for name, told in (("allowed_domains", "allowed"), ("blocked_domains", "blocked")):
        domains = given.get(name)
        if isinstance(domains, list) and domains:
            title += f" ({told}: {', '.join(map(str, domains))})"
    return Shown(title, "fetch")


def _exit_plan(given: Input, cwd: str) -> Shown:
    return Shown("Ready to code?", "switch_mode", (), texts(words(given, "plan")))


def _enter_plan(given: Input, cwd: str) -> Shown:
    return Shown("Enter plan mode", "switch_mode")


def _question(given: Input, cwd: str) -> Shown:
    questions = objects(given.get("questions"))
    asked = [words(question, "question") for question in questions]
    return Shown(asked[0] if len(asked) == 1 and asked[0] else "Asking for your input", "other", (), texts(*asked))


def _skill(given: Input, cwd: str) -> Shown:
    name = words(given, "skill") or words(given, "command")
    return Shown(f"Load skill: {name}" if name else "Load skill")


def _findings(given: Input, cwd: str) -> Shown:
    found = objects(given.get("findings"))
    lines = [
        f"**{item.get('file', '?')}:{item.get('line', '?')}** — {item.get('summary') or item.get('title') or ''}"
        for item in found
    ]
    plural = "finding" if len(found) == 1 else "findings"
    return Shown(f"Report {len(found)} {plural}", "think", (), texts("\n".join(lines)))


def _tasks(given: Input, cwd: str) -> Shown:
    subject = words(given, "subject")
    return Shown(f"Update the plan: {subject}" if subject else "Update the plan", "think")


def _shell_output(given: Input, cwd: str) -> Shown:
    return Shown(f"Output of {shlex.quote(words(given, 'task_id') or words(given, 'bash_id') or '?')}", "execute")


def _kill_shell(given: Input, cwd: str) -> Shown:
    return Shown(f"Stop {shlex.quote(words(given, 'shell_id') or words(given, 'task_id') or '?')}", "execute")


_TABLE: Mapping[str, Callable[[Input, str], Shown]] = {
    "Agent": _agent,
    "Task": _agent,
    "Bash": _bash,
    "PowerShell": _bash,
    "BashOutput": _shell_output,
    "TaskOutput": _shell_output,
    "KillShell": _kill_shell,
    "TaskStop": _kill_shell,
    "Read": _read,
    "Write": _write,
    "Edit": _edit,
    "MultiEdit": _edit,
    "NotebookEdit": _notebook,
    "Glob": _glob,
    "Grep": _grep,
    "WebFetch": _fetch,
    "WebSearch": _search,
    "web_fetch": _fetch,
    "web_search": _search,
    "ExitPlanMode": _exit_plan,
    "EnterPlanMode": _enter_plan,
    "AskUserQuestion": _question,
    "Skill": _skill,
    "ReportFindings": _findings,
    **dict.fromkeys(SILENT, _tasks),
}
