"""Checks of an operation before a decision: whether it is possible or doubtful, and its names."""

import os
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from ...foundation.documents import Document
from ..addresses import MAX_URL, host_warning, origin
from ..display import visible
from ..operations import Execute, FileOperation, FileRead, FileWrite, McpTool, NetworkAccess, Operation
from ..protected import protected_by
from ..variables import is_dangerous
from .rules.matching import Circumstances, is_in
from .rules.rules import Rules, Verdict

MAX_LISTED = 10  # names in one sentence
MAX_VARIABLES = 1000  # variables that one command sets
MAX_PATH = 4096  # as on Linux
MAX_WORD = 128 * 1024
MAX_WORDS_TOGETHER = 2 * 1024 * 1024
MAX_NAME = 1024  # characters of the name of a tool or of its server


class Doubt(str):
    """A reason to ask about an operation.

    `about` is the kind of doubt: a protected `path`, `variables`, or the `rest`.
    """

    about: Literal["path", "variables", "rest"]

    def __new__(cls, words: str, about: Literal["path", "variables", "rest"] = "rest") -> "Doubt":
        self = super().__new__(cls, words)
        self.about = about
        return self


def impossible(operation: Operation) -> str | None:
    """Why an operation is impossible as it is described; None if it is possible."""
    match operation:
        case FileOperation(path=path):
            if not is_path(path):
                return _path_fault(path)
            if isinstance(operation, FileWrite) and not operation.digest:
                return "the content that would be written is not known"
        case Execute(argv=argv, cwd=cwd, env=env):
            if not argv or not argv[0]:
                return "there is no program to run"
            if len(env) > MAX_VARIABLES:
                return f"it sets more than {MAX_VARIABLES} variables"
            if not is_path(cwd):
                return f"the command's directory: {_path_fault(cwd)}"
            if any("\0" in text for text in (*argv, *(v for _, v in env))):
                return "the command cannot be run as it is: it has a NUL character"
            if is_too_long(argv, env):
                return "the command is longer than the system takes"
            if any(not name or "=" in name or "\0" in name for name, _ in env):
                return "a variable has no proper name"
        case NetworkAccess(url=url):
            return None if 0 < len(url) <= MAX_URL else "there is no address, or none of a sensible length"
        case McpTool(server=server, tool=tool):
            is_named = 0 < len(server) <= MAX_NAME and 0 < len(tool) <= MAX_NAME
            return None if is_named else "there is no tool to call, or none with a sensible name"
    return None


def is_path(path: str) -> bool:
    """Whether this can be an absolute path."""
    return not _path_fault(path)


def _path_fault(path: str) -> str:
    if not path.startswith("/"):
        return "the path is not an absolute one"
    if len(path) > MAX_PATH:
        return "the path is longer than the system takes"
    return "the path has a NUL character" if "\0" in path else ""


def is_too_long(argv: Sequence[str], env: Sequence[tuple[str, str]]) -> bool:
    """Whether no system could start a command, because its words are too long or too many."""
    sizes = [*map(len, argv), *(len(name) + len(value) + 1 for name, value in env)]
    return max(sizes) >= MAX_WORD or sum(sizes) + 9 * len(sizes) > MAX_WORDS_TOGETHER


def names(operation: Operation) -> tuple[Operation, ...]:
    """An operation under its given path and, if that differs, last under the real one."""
    match operation:
        case FileOperation(path=path):
            real = os.path.realpath(path)
            return (operation,) if real == path else (operation, msgspec.structs.replace(operation, path=real))
        case Execute(cwd=cwd):
            real = os.path.realpath(cwd)
            return (operation,) if real == cwd else (operation, msgspec.structs.replace(operation, cwd=real))
        case _:
            return (operation,)


def doubts(operation: Operation, own: Sequence[str]) -> list[Doubt]:
    """Reasons to ask about an operation regardless of allow rules and most presets."""
    match operation:
        case FileOperation(path=path):
            found = protected_by(path, own)
            must_ask = found is not None and (found.secret or not isinstance(operation, FileRead))
            return [Doubt(visible(str(found)), "path")] if must_ask else []
        case Execute():
            dangerous = _dangerous(operation)
            found = protected_by(operation.cwd, own)
            changes = [Doubt(f"{_listed(dangerous)} can change what is run", "variables")] if dangerous else []
            if operation.interactive:
                changes.append(Doubt("the agent can type into it whatever it likes, without being asked again"))
            return [*changes, Doubt(visible(str(found)), "path")] if found else changes
        case NetworkAccess():
            is_plain = origin(operation.url) is not None
            why = host_warning(operation.url) or "this address can be read in several ways"
            return [] if is_plain else [Doubt(why)]
        case _:
            return []


def _dangerous(operation: Execute) -> list[str]:
    """The variables of a command that can change what is run."""
    set_here = {name for name, value in operation.env if is_dangerous(name, value)}
    return sorted(set_here.union(operation.dangerous_env))


def names_variables(env: Mapping[str, str], operation: Operation) -> bool:
    """Whether a rule names, with its value, every variable of a command that can change what is run."""
    if not isinstance(operation, Execute):
        return False
    given = dict(operation.env)
    return all(name in env and env[name] == given.get(name) for name in _dangerous(operation))


def _listed(names: Sequence[str]) -> str:
    """Some names in a row, and the number of the others."""
    shown = ", ".join(visible(name, limit=100) for name in names[:MAX_LISTED])
    return f"{shown} and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else shown


def judged(
    rules: Rules, names: Sequence[Operation], place: Circumstances, roots: Sequence[str], own: Sequence[str]
) -> Verdict | None:
    """The rules' verdict on an operation under all its names.

    An allow rule has to hold under each of them, and the arguments that it leaves open have to stay in the roots
    and outside protected paths.
    """
    verdicts = [rules.judge(name, place) for name in names]
    for effect in ("deny", "ask"):
        for verdict in verdicts:
            if verdict and verdict.effect == effect:
                return verdict
    allowed = verdicts[0] if all(verdicts) else None
    if allowed and allowed.rule.is_open and isinstance(operation := names[-1], Execute):
        further = operation.argv[len(allowed.rule.argv or ()) :]
        if doubt := _doubt_about(further, operation.cwd, roots, own):
            return Verdict("ask", allowed.rule, doubt)
    return allowed


def _doubt_about(words: Sequence[str], cwd: str, roots: Sequence[str], own: Sequence[str]) -> str | None:
    """Why a rule that leaves its arguments open does not cover these."""
    for word in words:
        for path in filter(None, (word, word.partition("=")[2])):
            full = os.path.join(cwd, path)
            if protected_by(full, own):
                return "one of the arguments is a protected path"
            if os.path.lexists(full) and not any(is_in(os.path.realpath(full), root) for root in roots):
                return "one of the arguments lies outside the session's directories"
    return None


def told_briefly(operation: Operation) -> Document:
    """An impossible operation for the audit log, cut to what can be shown."""
    match operation:
        case Execute(argv=argv):
            about = " ".join(visible(word, limit=200) for word in argv[:MAX_LISTED])
        case _:
            about = visible(operation.subject)
    return {"operation": operation.kind, "subject": about}


def told(operation: Operation) -> Document:
    """An operation for the audit log."""
    told: Document = {"operation": operation.kind, "fingerprint": operation.fingerprint()}
    match operation:
        case FileWrite():
            return told | {"path": operation.path, "digest": operation.digest, "creates": operation.creates}
        case FileOperation(path=path):
            return told | {"path": path}
        case Execute():
            settings = dict(operation.env)
            how = {"shell": operation.shell, "interactive": operation.interactive}
            return told | {"argv": operation.argv, "env": settings, "cwd": operation.cwd} | how
        case NetworkAccess():
            return told | {"url": operation.url}
        case McpTool():
            return told | {"server": operation.server, "tool": operation.tool, "arguments": operation.arguments}
