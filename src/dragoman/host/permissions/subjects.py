"""The subject of an agent's own question, as far as its words name it: files read or changed, a command.

All of it is a claim.  A rule may forbid it, a preset may answer it, and a yes covers the one operation that does
exactly the same (`tokens`).  A subject that cannot be read with certainty is not `plain`, and then only the user
answers.
"""

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct

from ... import schema as s
from ..operations import Execute

MAX_SHOWN = 20  # locations and contents of a call that are read
MAX_NODES = 1000  # values read in the input of a tool
MAX_DEPTH = 20
MAX_TOOL_NAME = 2048
MCP = "mcp__"  # the prefix by which agents name tools of MCP servers
SHELLS = frozenset(f"{place}{name}" for place in ("", "/bin/", "/usr/bin/") for name in ("sh", "bash", "dash"))

# Words in names of arguments that mean a place or an effect, and whole names of arguments that are texts.
_PLACES = """
    path paths file files filename filepath dir directory cwd workdir root folder notebook uri source target dest
    destination
"""
_DEEDS = "command cmd commands script shell code program argv exec executable url urls"
_TEXTS = """
    content contents file_text text old_string new_string old_str new_str old_text new_text before after pattern
    query replacement insert_text description explanation
"""
PLACES, DEEDS, TEXTS = (frozenset(words.split()) for words in (_PLACES, _DEEDS, _TEXTS))
EDITOR_VERBS = ("view", "create", "write", "str_replace", "insert", "undo_edit", "edit")  # of text editor tools
_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
_IN_PATCHES = re.compile(
    r"^(?:(?:---|\+\+\+|Index:|rename (?:from|to)|\*\*\* (?:Add|Update|Delete) File:|\*\*\* Move to:)"
    r"\s+(?P<path>[^\t\n]+)|diff --git (?P<both>.+))$",
    re.MULTILINE,
)
_PATHS = ("path", "file_path", "filePath", "filepath", "absolute_path")
_CONTENTS = ("content", "contents", "file_text")
_PAIRS = (
    ("old_string", "new_string"),
    ("oldString", "newString"),
    ("before", "after"),
    ("old_str", "new_str"),
    ("old_text", "new_text"),
)
_DIRECTORIES = ("cwd", "workdir", "working_directory", "workingDirectory", "directory", "dir")
_PLAIN_WORDS = re.compile(r"[A-Za-z0-9_@%+=:,./ -]+")


FileAction = Literal["read", "write", "delete"]


class ShownChange(Struct, frozen=True):
    """The change of one file in a question: each removed text (None: no file) with the new one."""

    path: str
    real: str  # the target of the path when the question came, wherever it leads later
    steps: tuple[tuple[str | None, str], ...]


class NamedCommand(Struct, frozen=True):
    """A command as a question names it: a line for a shell, or words."""

    line: str | None
    words: tuple[str, ...]
    cwd: str
    env: tuple[tuple[str, str], ...] = ()

    @property
    def shown(self) -> str:
        return self.line if self.line is not None else shlex.join(self.words)

    @property
    def operation(self) -> Execute:
        """The operation with which the host would run this."""
        argv = self.words if self.line is None else ("/bin/sh", "-c", self.line)
        return Execute(argv=argv, cwd=self.cwd, env=self.env, shell=self.line is not None)


class Subject(Struct, frozen=True):
    """The subject of a question; every path is absolute."""

    action: FileAction | None = None
    paths: tuple[str, ...] = ()
    changes: tuple[ShownChange, ...] = ()
    command: NamedCommand | None = None
    tools: tuple[tuple[str, str], ...] = ()  # tools of MCP servers, each with its server; the call is one of these
    plain: bool = False  # whether everything it names is known, and nothing of it runs programs or leads elsewhere

    @property
    def changed(self) -> dict[str, str]:
        """The files with shown changes, each with its final text."""
        return {change.path: change.steps[-1][1] for change in self.changes}


def subject_of(call: s.ToolCallUpdate, cwd: str) -> Subject:
    """The subject of a tool call; relative paths are relative to the session's directory."""
    contents, locations = call.content or (), call.locations or ()
    steps: dict[str, list[tuple[str | None, str]]] = {}
    for content in contents:
        if isinstance(content, s.Diff):
            steps.setdefault(_absolute(content.path, cwd), []).append((content.old_text, content.new_text))
    if not steps and call.kind in (None, "edit", "other") and (change := _change_in(call.raw_input)):
        path, old, new = change
        steps[_absolute(path, cwd)] = [(old, new)]
    found = _Input(call.raw_input, cwd, [text for each in steps.values() for pair in each for text in pair])
    command = command_in(call.raw_input, call.kind, cwd)
    paths = [*steps, *(_absolute(location.path, cwd) for location in locations), *found.paths]
    is_shown = len(contents) <= MAX_SHOWN and len({location.path for location in locations}) <= MAX_SHOWN
    is_still = all(isinstance(content, s.Diff | s.Content) for content in contents)
    return Subject(
        action=_action_of(call.kind, bool(steps)),
        paths=tuple(dict.fromkeys(paths)),
        changes=tuple(ShownChange(path, os.path.realpath(path), tuple(each)) for path, each in steps.items()),
        command=command,
        tools=_tools(call.name),
        plain=is_shown and is_still and found.plain and bool(paths),
    )


def _tools(name: str | None) -> tuple[tuple[str, str], ...]:
    """The tools of MCP servers that `mcp__SERVER__TOOL` may mean: both names may contain two underscores."""
    words = (name or "")[:MAX_TOOL_NAME].removeprefix(MCP)
    if words == (name or "")[:MAX_TOOL_NAME]:
        return ()
    ends = [at for at in range(1, len(words) - 2) if words.startswith("__", at)]
    return tuple((words[:at], words[at + 2 :]) for at in ends[:MAX_SHOWN])


def _action_of(kind: str | None, changes: bool) -> FileAction | None:
    if kind in ("read", "search") and not changes:
        return "read"
    if kind in ("delete", "move"):
        return "delete"
    return "write" if kind == "edit" or (changes and kind in (None, "other")) else None


def _absolute(path: str, cwd: str) -> str:
    if path.startswith("file:"):
        path = unquote(urlsplit(path).path)
    return os.path.normpath(os.path.join(cwd, os.path.expanduser(path)))


class _Input:
    """The paths in the input of a tool, and whether nothing else in it matters."""

    def __init__(self, value: object, cwd: str, shown: Sequence[str | None]) -> None:
        self._cwd, self._shown = cwd, [text for text in shown if text]
        self._left = MAX_NODES
        self.paths: list[str] = []
        self.plain = True
        if value is not s.UNSET:
            self._look(value, (), 0)

    def _look(self, value: object, named: tuple[str, ...], depth: int) -> None:
        self._left -= 1
        if self._left < 0 or depth > MAX_DEPTH:
            self.plain = False
        elif isinstance(value, Mapping):
            for name, member in value.items():
                self._look(member, tuple(_words(str(name))), depth + 1)
        elif isinstance(value, list | tuple):
            for item in value:
                self._look(item, named, depth + 1)
        elif isinstance(value, str):
            self._read(value, named, depth)

    def _read(self, text: str, named: tuple[str, ...], depth: int) -> None:
        is_text = "_".join(named) in TEXTS
        is_long = "\n" in text and PLACES.isdisjoint(named)
        if (is_text or is_long) and any(text in shown for shown in self._shown):
            return
        if text.startswith(("{", "[")) and not is_text and (within := _json(text)) is not None:
            self._look(within, named, depth + 1)
        elif not is_text and not PLACES.isdisjoint(named):
            self.paths.append(_absolute(text, self._cwd))
        elif not DEEDS.isdisjoint(named):
            self.plain = self.plain and text in EDITOR_VERBS
        elif "\n" in text:
            self.paths += [_absolute(path, self._cwd) for path in _patched(text)]
        elif not is_text and (text.startswith(("/", "~", "file:")) or ".." in text.split("/")):
            self.paths.append(_absolute(text, self._cwd))
        elif not is_text and (not named or "://" in text):  # values without a name may be anything
            self.plain = False


def _json(text: str) -> object:
    """The list or object in a JSON text, because some agents send a tool's arguments as text."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError):
        return None


def _words(name: str) -> Iterator[str]:
    return (word.lower() for word in _WORDS.split(name) if word)


def _patched(text: str) -> Iterator[str]:
    """The files in a patch."""
    for found in _IN_PATCHES.finditer(text):
        for path in [found["path"]] if found["path"] else found["both"].split():
            if path.strip() != "/dev/null":
                yield re.sub(r"^[ab]/", "", path.strip())


def _change_in(given: object) -> tuple[str, str | None, str] | None:
    """The change in a tool's input: a path, and the whole text or the old and the new part."""
    if not isinstance(given, Mapping):
        return None
    path = next((given[name] for name in _PATHS if isinstance(given.get(name), str)), None)
    if path is None:
        return None
    for old, new in _PAIRS:
        if isinstance(given.get(old), str) and isinstance(given.get(new), str):
            return path, given[old], given[new]
    content = next((given[name] for name in _CONTENTS if isinstance(given.get(name), str)), None)
    return None if content is None else (path, None, content)


def command_in(given: object, kind: str | None, cwd: str) -> NamedCommand | None:
    """The command in a tool's input, in any of the forms that agents use."""
    if not isinstance(given, Mapping):
        return None
    said = next((given[name] for name in ("command", "cmd", "argv") if name in given), None)
    if isinstance(said, str) and said in EDITOR_VERBS and kind != "execute":
        return None
    where = next((given[name] for name in _DIRECTORIES if isinstance(given.get(name), str)), "")
    env = given.get("env") or {}
    settings = tuple((str(name), str(value)) for name, value in env.items()) if isinstance(env, Mapping) else ()
    directory = os.path.realpath(_absolute(where, cwd))
    args = given.get("args")
    if isinstance(said, str) and said and isinstance(args, list) and all(isinstance(word, str) for word in args):
        return NamedCommand(None, (said, *args), directory, settings)
    if isinstance(said, str) and said:
        return NamedCommand(said, (), directory, settings)
    if isinstance(said, list) and said and all(isinstance(word, str) for word in said):
        return NamedCommand(None, tuple(said), directory, settings)
    return None


def shell_line(argv: Sequence[str]) -> str | None:
    """The text that one of the system's shells is given; None for any other command."""
    is_shell = len(argv) == 3 and argv[0] in SHELLS and argv[1] in ("-c", "-lc")
    return argv[2] if is_shell else None


def plain_words(line: str) -> tuple[str, ...] | None:
    """The words of a line that a shell would not change; None for any other line."""
    words = tuple(line.split())
    return words if _PLAIN_WORDS.fullmatch(line) and words and "=" not in words[0] else None
