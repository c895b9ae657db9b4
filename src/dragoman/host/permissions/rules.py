"""Rules about what an agent may do, from the user's file and the workspace's.

    [[allow]]
    operation = "terminal_execute"
    argv = ["npm", "test", "..."]          # "..." at the end: any further arguments

    [[deny]]
    operation = "file_write"
    path = "**/*.lock"
    reason = "lock files are made by the package manager"

Deny beats ask beats allow, whatever the order.  An allow rule must fit exactly: paths by their real names, argv
word by word, a shell's command as a whole, every variable.  Deny and ask rules are read generously: without regard
to case, a program wherever it lies; and a program that a shell or a launcher may be hiding is asked about.  The
file of a workspace can only make things stricter until the user trusts it.
"""

import difflib
import grp
import hashlib
import os
import pwd
import re
import stat
import tomllib
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any, NoReturn

from msgspec import Struct

from ...directories import config_directory
from ...errors import Error
from ..addresses import Origin, host_pattern
from ..operations import KINDS, Operation
from .launchers import why_not_open
from .matching import Effect, Place, Rule

EFFECTS: tuple[Effect, ...] = ("deny", "ask", "allow")  # the stronger first
MAX_FILE = 256 * 1024
MAX_RULES = 1000
_MATCHERS = {
    "file_read": ("path",),
    "file_write": ("path",),
    "file_delete": ("path",),
    "terminal_execute": ("argv", "shell", "cwd", "env"),
    "network_access": ("host",),
    "mcp_tool": ("server", "tool"),
}
_KEYS = ("path", "argv", "shell", "cwd", "env", "host", "server", "tool")
_ANY_RULE = ("operation", "expires", "agent", "reason")
REST = "..."


class RulesError(Error):
    """A rules file that cannot be used: says which file, which rule, and what to write instead."""


class Verdict(Struct, frozen=True):
    """What the rules say of an operation, the rule that says it, and why in the user's words or ours."""

    effect: Effect
    rule: Rule
    why: str


class Rules:
    """All rules in force."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self.rules = tuple(rules)
        self.ignored: tuple[Rule, ...] = ()  # what the workspace would allow, had the user trusted its file
        self.untrusted: tuple[str, str] | None = None  # that file, and the digest to trust it by

    @classmethod
    def load(
        cls,
        user: str | os.PathLike[str] | None = None,
        workspace: str | os.PathLike[str] | None = None,
        trusted: Callable[[str, str], bool] | None = None,
    ) -> "Rules":
        """Read the user's file and a workspace's; a file that is not there has no rules.

        `trusted` says whether the user trusts a workspace's file, known by its real path and its digest; without
        it none is.
        """
        rules = cls(_read(Path(user), own=True)[0] if user else ())
        if workspace:
            theirs, digest = _read(Path(workspace), own=False)
            path = os.path.realpath(workspace)
            if not (trusted and trusted(path, digest)):
                rules.ignored = tuple(rule for rule in theirs if rule.effect == "allow")
                rules.untrusted = (path, digest) if rules.ignored else None
            rules.rules += tuple(rule for rule in theirs if rule not in rules.ignored)
        return rules

    def __add__(self, others: "Rules") -> "Rules":
        """These and others, all in force."""
        return Rules((*self.rules, *others.rules))

    def judge(self, operation: Operation, place: Place) -> Verdict | None:
        """What the strongest rule about an operation says; None when no rule is about it."""
        found: dict[Effect, Verdict] = {}
        for rule in self.rules:
            if rule.matches(operation, place):
                found.setdefault(rule.effect, Verdict(rule.effect, rule, rule.reason))
            elif rule.effect != "allow" and rule.may_match(operation, place):
                found.setdefault("ask", Verdict("ask", rule, "this may hide what a rule is about"))
        return next((found[effect] for effect in EFFECTS if effect in found), None)


def user_file() -> Path:
    """Where the user's rules are."""
    return config_directory() / "permissions.toml"


def workspace_file(root: str | os.PathLike[str]) -> Path:
    """Where a workspace's rules are."""
    return Path(root, ".dragoman", "permissions.toml")


# Reading a file


def _read(path: Path, *, own: bool) -> tuple[list[Rule], str]:
    """The rules of a file, and its digest."""
    data = _contents(path, own=own)
    try:
        text = data.decode()
        document = tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as exc:
        raise RulesError(f"{path}: this is not TOML: {exc}") from None
    for key, tables in document.items():
        if key not in EFFECTS:
            raise RulesError(f'{path}: unknown key "{key}"{_meant(key, EFFECTS)}; rules begin with [[allow]]')
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise RulesError(f"{path}: write [[{key}]] with two brackets: every rule is an item of a list")
    if sum(map(len, document.values())) > MAX_RULES:
        raise RulesError(f"{path}: more than {MAX_RULES} rules")
    rules = []
    for effect in EFFECTS:
        lines = _headers(text, effect)
        for number, table in enumerate(document.get(effect, ()), 1):
            line = f":{lines[number - 1]}" if number <= len(lines) else ""
            rules.append(_Table(effect, f"{path}{line} ({effect} rule {number})", table).rule())
    return rules, hashlib.sha256(data).hexdigest()


def _contents(path: Path, *, own: bool) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if own else os.O_NOFOLLOW))
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as exc:
        raise RulesError(f"{path}: the rules cannot be read: {exc.strerror}") from None
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE:
            raise RulesError(f"{path}: rules are a plain file of at most {MAX_FILE // 1024} KiB")
        if own and (status.st_uid not in (0, os.geteuid()) or _others_can_write(status)):
            raise RulesError(f"{path}: others can write to this file, so it cannot allow anything; chmod go-w it")
        return file.read(MAX_FILE)


def _others_can_write(status: os.stat_result) -> bool:
    """Whether more than the owner can write to a file; a group of the owner's own name has nobody else in it."""
    if status.st_mode & 0o020:
        try:
            if grp.getgrgid(status.st_gid).gr_name != pwd.getpwuid(status.st_uid).pw_name:
                return True
        except KeyError:
            return True
    return bool(status.st_mode & 0o002)


def _headers(text: str, effect: str) -> list[int]:
    """The lines on which the rules of one effect begin."""
    header = re.compile(rf"\s*\[\[\s*[\"']?{effect}[\"']?\s*\]\]")
    return [number for number, line in enumerate(text.splitlines(), 1) if header.match(line)]


def _meant(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, known, 1)
    return f'; did you mean "{close[0]}"?' if close else ""


class _Table:
    """One rule as it stands in a file, read with complaints that say what to write."""

    def __init__(self, effect: Effect, where: str, table: Mapping[str, Any]) -> None:
        self.effect: Effect = effect
        self.where = where
        self.table = table

    def rule(self) -> Rule:
        operations = self._operations()
        known = [key for key in _KEYS if all(key in _MATCHERS[kind] for kind in operations)]
        for key in self.table:
            if key not in (*known, *_ANY_RULE):
                names = ", ".join((*known, *_ANY_RULE))
                self._fail(f'unknown key "{key}"{_meant(key, known)}; a rule about {operations[0]} has: {names}')
        argv, is_open = self._argv()
        rule = Rule(
            effect=self.effect,
            operations=operations,
            where=self.where,
            paths=tuple(map(self._glob, self._texts("path"))),
            argv=argv,
            is_open=is_open,
            shell=self._text("shell"),
            cwd=self._cwd(),
            env=self._env(),
            hosts=tuple(map(self._host, self._texts("host"))),
            server=self._text("server"),
            tools=tuple(self._texts("tool")),
            agent=self._text("agent"),
            expires=self._expires(),
            reason=self._text("reason") or "",
        )
        self._check(rule)
        return rule

    def _check(self, rule: Rule) -> None:
        """See that an allow rule says what it allows, and that what it says is exact."""
        if rule.argv is not None and rule.shell is not None:
            self._fail("a command is either argv or, for a shell to read, shell; write two rules")
        if self.effect != "allow":
            if rule.env:
                self._fail(f"env belongs to allow rules; this one would {self.effect} whatever is set")
            return
        kind = rule.operations[0]
        if kind.startswith("file_") and not rule.paths:
            self._fail(f'which files? write path = "src/**", or path = "**" for all of the workspace ({kind})')
        if kind == "terminal_execute" and rule.argv is None and rule.shell is None:
            self._fail('which command? write argv = ["npm", "test"]; to allow all, use the preset allow-all')
        if kind == "network_access" and not rule.hosts:
            self._fail('which host? write host = "example.com"')
        if kind == "mcp_tool" and rule.server is None:
            self._fail('whose tool? write server = "github" and tool = "search"')
        if rule.argv is not None and rule.is_open and (why := why_not_open(rule.argv)):
            self._fail(f"{why}, so it cannot be allowed with any further arguments; write them all out")

    def _operations(self) -> tuple[str, ...]:
        if "operation" not in self.table:
            self._fail(f'which operation? write operation = "{KINDS[0]}", or one of: {", ".join(KINDS[1:])}')
        names = self._texts("operation")
        if names == ["*"] and self.effect != "allow":
            return KINDS
        for name in names:
            if name not in KINDS:
                self._fail(f'unknown operation "{name}"{_meant(name, KINDS)}; there are: {", ".join(KINDS)}')
        return tuple(names)

    def _texts(self, key: str) -> list[str]:
        """A string, or a list of strings, as a list."""
        value = self.table.get(key, [])
        values = [value] if isinstance(value, str) else value
        is_texts = isinstance(values, list) and all(isinstance(text, str) and text for text in values)
        if not is_texts or (key in self.table and not values):
            self._fail(f'"{key}" is a string or a list of strings')
        return list(values)

    def _text(self, key: str) -> str | None:
        value = self.table.get(key)
        if value is not None and not (isinstance(value, str) and value):
            self._fail(f'"{key}" is a string')
        return value

    def _glob(self, glob: str) -> str:
        expanded = os.path.expanduser(glob) if glob.startswith("~/") else glob
        parts = expanded.removeprefix("/").split("/")
        if len(glob) > 1024 or "\\" in glob or "\0" in glob:
            self._fail(f'"{glob[:80]}" is no path; parts are separated by / ')
        if "" in parts:
            self._fail(f'"{glob}" has an empty part; a directory with all that is in it is "{glob.strip("/")}/**"')
        if "." in parts or ".." in parts:
            self._fail(f'"{glob}": paths are the real ones, without . and ..')
        return expanded

    def _cwd(self) -> str | None:
        cwd = self._text("cwd")
        return cwd if cwd in (None, ".") else self._glob(cwd)

    def _argv(self) -> tuple[tuple[str, ...] | None, bool]:
        words = self.table.get("argv")
        if words is None:
            return None, False
        if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
            self._fail('"argv" is a list of strings; write argv = ["npm", "test"]')
        is_open = words[-1] == REST
        fixed = words[:-1] if is_open else words
        if not fixed or REST in fixed:
            self._fail('"..." stands at the end, after the program at least: argv = ["npm", "test", "..."]')
        if "*" in fixed or "**" in fixed:
            self._fail('"*" is no wildcard in argv; write "..." at the end for any further arguments')
        return tuple(fixed), is_open

    def _env(self) -> dict[str, str]:
        env = self.table.get("env", {})
        if not isinstance(env, dict) or not all(isinstance(value, str) for value in env.values()):
            self._fail('"env" is a table of strings; write env = { CI = "1" }')
        return dict(env)

    def _host(self, text: str) -> Origin:
        found = host_pattern(text, exact=self.effect == "allow")
        if found is None:
            self._fail(f'"{text}" is no host; write "example.com", "*.example.com" or "http://localhost:8080"')
        return found

    def _expires(self) -> float | None:
        expires = self.table.get("expires")
        if isinstance(expires, datetime):
            return expires.timestamp()
        if isinstance(expires, date):
            return datetime.combine(expires + timedelta(days=1), time()).timestamp()
        if expires is not None:
            self._fail('"expires" is a date; write expires = 2030-12-31, without quotes')
        return None

    def _fail(self, what: str) -> NoReturn:
        raise RulesError(f"{self.where}: {what}")
