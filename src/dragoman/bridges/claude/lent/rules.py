"""Rules of Claude's settings files (`Bash(npm test:*)`, `Edit(src/**)`), for tools that run through the client."""

import itertools
import os
import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from ....foundation.directories import home_directory
from ....foundation.documents import Json
from ....host.permissions.rules.patterns import path_fits, text_fits
from ....host.permissions.rules.shells import MAX_COMMANDS, is_dynamic, simple_commands
from ..tools.shown import ACP, absolute, objects, words

_RULE = re.compile(r"([\w*]+)(?:\((.*)\))?", re.DOTALL)
_REDIRECTED = re.compile(r"[0-9]*[<>]")
OURS = "cliArg"  # the sources of rules that are arguments of the program
TAKEN_AWAY = {"Read", "Edit", "MultiEdit", "Write", "Bash", "BashOutput", "KillShell"}
FILES = {"Read": ("Read",), "Edit": ("Edit",), "Write": ("Edit", "Write")}  # the rules that apply to each tool


class SettingsRule(Struct, frozen=True):
    """A rule: the tool that it is about, and the pattern of its calls; an empty pattern matches all."""

    behaviour: str  # allow, ask or deny
    tool: str
    content: str | None = None


def read_rules(state: Mapping[str, Json]) -> list[SettingsRule]:
    """The program's effective rules, without those that replace its tools by ours."""
    found = []
    for entry in objects(state.get("rules")):
        match = _RULE.fullmatch(str(entry.get("rule", "")))
        if match and not (entry.get("source") == OURS and match[2] is None and _is_own(match[1])):
            found.append(SettingsRule(str(entry.get("behavior")), match[1], match[2]))
    return found


def matching(rules: Iterable[SettingsRule], behaviour: str, tool: str, given: Mapping[str, Json], cwd: str) -> bool:
    """Whether a rule applies to a call; a command is allowed as a whole, and denied by any of its parts."""
    about = [rule for rule in rules if rule.behaviour == behaviour and _is_about(rule.tool, tool)]
    if any(rule.content in (None, "", "*") for rule in about):
        return True
    if tool == "Bash":
        return _command_fits(about, words(given, "command"), every=behaviour == "allow")
    path = absolute(words(given, "file_path"), cwd)
    return any(_path_fits(rule.content or "", path, cwd) for rule in about)


def _is_own(name: str) -> bool:
    return name.startswith(ACP) or name in TAKEN_AWAY


def _is_about(named: str, tool: str) -> bool:
    own = {f"{ACP}{tool}", f"{ACP}*", ACP.removesuffix("__"), f"{ACP.removesuffix('__')}__*"}
    return named in FILES.get(tool, (tool,)) or named in own


def _command_fits(rules: Iterable[SettingsRule], command: str, *, every: bool) -> bool:
    contents = [rule.content or "" for rule in rules]
    if command in contents:
        return True
    parts = [" ".join(w.text for w in part) for part in itertools.islice(simple_commands(command), MAX_COMMANDS)]
    parts = [part for part in parts if part]
    if not every:
        return any(_text_fits(content, part) for content in contents for part in [command, *parts])
    if is_dynamic(command) or not parts or any(_REDIRECTED.search(part) for part in parts):
        return False
    return all(any(_text_fits(content, part) for content in contents) for part in parts)


def _text_fits(content: str, command: str) -> bool:
    if content.endswith((":*", " *")):
        prefix = content[:-2]
        return command == prefix or command.startswith(f"{prefix} ")
    return text_fits(content, command)


def _path_fits(pattern: str, path: str, cwd: str) -> bool:
    """Whether a path matches: `//` begins at the root, `~/` at home, anything else in the session's directory."""
    if pattern.startswith("//"):
        pattern = pattern[1:]
    elif pattern.startswith("~/"):
        pattern = os.path.join(home_directory(), pattern[2:])
    elif "/" in pattern.rstrip("/"):
        pattern = os.path.join(cwd, pattern.removeprefix("./").lstrip("/"))
    else:
        pattern = os.path.join(cwd, "**", pattern)
    return path_fits(pattern, path) or path_fits(f"{pattern.rstrip('/')}/**", path)
