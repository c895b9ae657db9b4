"""What must be known of an operation before anybody decides on it: is it possible, doubtful, what is it called."""

import os
from collections.abc import Sequence
from typing import Any

import msgspec

from ..addresses import host_warning, origin
from ..display import visible
from ..operations import Execute, FileOperation, FileWrite, McpTool, NetworkAccess, Operation
from ..variables import is_dangerous
from .protected import protected_by


def impossible(operation: Operation) -> str | None:
    """Why an operation cannot be what it says; None when it can."""
    match operation:
        case FileOperation(path=path):
            if not path.startswith("/") or "\0" in path:
                return "the path is not an absolute one"
            if isinstance(operation, FileWrite) and not operation.digest:
                return "the content that would be written is not known"
        case Execute(argv=argv, cwd=cwd, env=env):
            if not argv or not argv[0]:
                return "there is no program to run"
            if not cwd.startswith("/") or any("\0" in text for text in (*argv, cwd, *(v for _, v in env))):
                return "the command or its directory cannot be run as they are"
            if any(not name or "=" in name or "\0" in name for name, _ in env):
                return "a variable has no proper name"
        case NetworkAccess(url=url):
            return None if url else "there is no address"
        case McpTool(server=server, tool=tool):
            return None if server and tool else "there is no tool to call"
    return None


def names(operation: Operation) -> tuple[Operation, ...]:
    """An operation under the path it was given and, where it differs, under the real one, which comes last."""
    match operation:
        case FileOperation(path=path):
            real = os.path.realpath(path)
            return (operation,) if real == path else (operation, msgspec.structs.replace(operation, path=real))
        case Execute(cwd=cwd):
            real = os.path.realpath(cwd)
            return (operation,) if real == cwd else (operation, msgspec.structs.replace(operation, cwd=real))
        case _:
            return (operation,)


def doubts(operation: Operation, own: Sequence[str]) -> list[str]:
    """Why an operation must be asked about, whatever the rules and the preset say."""
    match operation:
        case FileOperation(path=path):
            found = protected_by(path, own)
            return [f"{visible(found)} is protected"] if found else []
        case Execute():
            set_here = {name for name, value in operation.env if is_dangerous(name, value)}
            dangerous = sorted(set_here.union(operation.dangerous_env))
            found = protected_by(operation.cwd, own)
            changes = [f"{visible(name)} can change what is run" for name in dangerous]
            if operation.interactive:
                changes.append("the agent can type into it whatever it likes, without being asked again")
            return [*changes, f"{visible(found)} is protected"] if found else changes
        case NetworkAccess():
            is_plain = origin(operation.url) is not None
            return [] if is_plain else [host_warning(operation.url) or "this address can be read in several ways"]
        case _:
            return []


def names_protected(word: str, cwd: str, own: Sequence[str]) -> bool:
    """Whether a word of a command, or what follows its =, is a protected path."""
    paths = (word, word.partition("=")[2])
    return any(protected_by(os.path.join(cwd, path), own) for path in paths if path)


def told(operation: Operation) -> dict[str, Any]:
    """An operation as the audit log has it."""
    told: dict[str, Any] = {"operation": operation.kind, "fingerprint": operation.fingerprint()}
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
