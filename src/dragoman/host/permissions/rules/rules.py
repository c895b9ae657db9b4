"""Rules about what an agent may do, from the user's file and the workspace's.

    [[allow]]
    operation = "terminal_execute"
    argv = ["npm", "test", "..."]          # "..." at the end: any further arguments

    [[deny]]
    operation = "file_write"
    path = "**/*.lock"
    reason = "lock files are made by the package manager"

Deny beats ask beats allow, in any order.  An allow rule must fit exactly: paths by their real names, argv word by
word, a shell's command as a whole, every variable.  Deny and ask rules are read generously: case is ignored, a
program may be in any directory, and the user is asked about a program that a shell or a launcher may be hiding.  A
workspace's file can only restrict until the user trusts it.
"""

import difflib
import hashlib
import math
import os
import re
import stat
import tomllib
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import NoReturn

from msgspec import Struct

from ....errors import Error
from ....foundation import places
from ....foundation.directories import config_directory
from ....foundation.unix import grp, pwd
from ...addresses import Origin, host_pattern
from ...disk import content, opened
from ...display import visible
from ...operations import KINDS, Operation
from .matching import Circumstances, Effect, ParsedOperation, Rule
from .patterns import MAX_PATTERN, alternatives, complaint, expanded
from .programs import why_not_open

EFFECTS: tuple[Effect, ...] = ("deny", "ask", "allow")  # the strongest first
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
    """A rules file that cannot be used: names the file, the rule, and the correction."""


class Verdict(Struct, frozen=True):
    """The rules' effect on an operation, the deciding rule, and the reason in the user's words or ours."""

    effect: Effect
    rule: Rule
    why: str


class Rules:
    """All rules in force."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self.rules = tuple(rules)
        self.ignored: tuple[Rule, ...] = ()  # what the workspace would allow if the user trusted its file
        self.untrusted: tuple[str, str] | None = None  # that file, and its digest

    @classmethod
    def load(
        cls,
        user: str | os.PathLike[str] | None = None,
        workspace: str | os.PathLike[str] | None = None,
        trusted: Callable[[str, str], bool] | None = None,
    ) -> "Rules":
        """Read the user's file and a workspace's file; a missing file has no rules.

        `trusted` returns whether the user trusts a workspace's file, by its real path and its digest; without it,
        no file is trusted.
        """
        rules = cls(_read(Path(user), _contents(Path(user), own=True)) if user else ())
        if workspace:
            data = _contents(Path(workspace), own=False)
            rules._add_untrusted(Path(workspace), data, trusted)
        return rules

    @classmethod
    def of_workspace(cls, root: places.Place, trusted: Callable[[str, str], bool] | None = None) -> "Rules":
        """The rules of an open workspace; its file is not read through links."""
        path = workspace_file(root.path)
        rules = cls()
        name = path.parent.name
        try:
            if stat.S_ISLNK(os.stat(name, dir_fd=root.fd, follow_symlinks=False).st_mode):
                raise RulesError(
                    f"{path.parent} is a link; rules are read from a directory of the workspace itself"
                )
            directory = places.descend(root.fd, [name])
        except (FileNotFoundError, NotADirectoryError):
            return rules
        except OSError as exc:
            raise RulesError(f"{path}: the rules cannot be read: {exc.strerror}") from None
        try:
            data = _contents(path, own=False, dir_fd=directory)
        finally:
            os.close(directory)
        rules._add_untrusted(path, data, trusted)
        return rules

    def _add_untrusted(self, path: Path, data: bytes, trusted: Callable[[str, str], bool] | None) -> None:
        """Add the rules of a workspace's file; its allow rules only if the user trusts it."""
        theirs, digest = _read(path, data), hashlib.sha256(data).hexdigest()
        real = os.path.realpath(path)
        if not (trusted and trusted(real, digest)):
            self.ignored = tuple(rule for rule in theirs if rule.effect == "allow")
            self.untrusted = (real, digest) if self.ignored else None
        self.rules += tuple(rule for rule in theirs if rule not in self.ignored)

    def __add__(self, others: "Rules") -> "Rules":
        """These rules together with others."""
        return Rules((*self.rules, *others.rules))

    def judge(self, operation: Operation, place: Circumstances) -> Verdict | None:
        """The verdict of the strongest rule that concerns an operation; None if there is none."""
        found: dict[Effect, Verdict] = {}
        seen = ParsedOperation(operation)
        for rule in self.rules:
            relevance = rule.relevance(seen, place)
            if relevance == "is":
                found.setdefault(rule.effect, Verdict(rule.effect, rule, rule.reason))
            elif relevance == "may be":
                found.setdefault("ask", Verdict("ask", rule, "this may be, or hide, what a rule is about"))
        return next((found[effect] for effect in EFFECTS if effect in found), None)


def user_file() -> Path:
    """Where the user's rules are."""
    return config_directory() / "permissions.toml"


def workspace_file(root: str | os.PathLike[str]) -> Path:
    """Where a workspace's rules are."""
    return Path(root, ".dragoman", "permissions.toml")


# Reading a file


def _read(path: Path, data: bytes) -> list[Rule]:
    """The rules that a file holds."""
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
    return rules


def _contents(path: Path, *, own: bool, dir_fd: int | None = None) -> bytes:
    """The content of a file, found in the open directory if one is given."""
    try:
        with opened(Path(path.name) if dir_fd else path, follow=own, dir_fd=dir_fd) as (fd, status):
            if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE:
                raise RulesError(f"{path}: rules are a plain file of at most {MAX_FILE // 1024} KiB")
            if own and (status.st_uid not in (0, os.geteuid()) or _others_can_write(status)):
                raise RulesError(
                    f"{path}: others can write to this file, so it cannot allow anything; chmod go-w it"
                )
            return content(fd, MAX_FILE)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as exc:
        raise RulesError(f"{path}: the rules cannot be read: {exc.strerror}") from None


def _others_can_write(status: os.stat_result) -> bool:
    """Whether users besides the owner can write to a file; a group with the owner's name has no other members."""
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
    """Reads one rule of a file; its errors say what to write instead."""

    def __init__(self, effect: Effect, where: str, table: Mapping[str, object]) -> None:
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
            paths=self._globs("path"),
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
        """Check that an allow rule names exactly what it allows."""
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
        texts = [text for text in values if isinstance(text, str) and text] if isinstance(values, list) else None
        if texts is None or texts != values or (key in self.table and not texts):
            self._fail(f'"{key}" is a string or a list of strings')
        for text in texts:
            self._check_name(key, text)
        return texts

    def _text(self, key: str) -> str | None:
        value = self.table.get(key)
        if value is not None and not (isinstance(value, str) and value):
            self._fail(f'"{key}" is a string')
        if value is not None and key != "reason":
            self._check_name(key, value)
        return value

    def _check_name(self, key: str, text: str) -> None:
        """Check a name; a shell's command may have blanks around it, but must not be empty."""
        if (text.strip() != text and key != "shell") or not text.strip():
            self._fail(f'"{visible(text, limit=80)}" has blanks around it, which no {key} has')

    def _globs(self, key: str) -> tuple[str, ...]:
        """The path patterns of a key, without braces; for a ban, patterns with braces also count literally."""
        found: list[str] = []
        for glob in self._texts(key):
            if why := complaint(glob):
                self._fail(f'"{visible(glob, limit=80)}" {why}')
            home = expanded(glob)
            found += [*alternatives(home), *([home] if self.effect != "allow" else [])]
        return tuple(dict.fromkeys(found))

    def _cwd(self) -> str | None:
        if (cwd := self._text("cwd")) in (None, "."):
            return cwd
        first, *others = self._globs("cwd")
        if others:
            self._fail('"cwd" is one pattern without braces; write a rule for each directory')
        return first

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
        if self.effect == "allow" and ("*" in fixed or "**" in fixed):
            self._fail('"*" is no wildcard in argv; write "..." at the end for any further arguments')
        if self.effect != "allow":
            self._check_ban(fixed)
        return tuple(fixed), is_open

    def _check_ban(self, words: Sequence[str]) -> None:
        """Check that a ban on a command can match one, since no shell reads its words."""
        name = words[0]
        if not name.strip() or (re.search(r"\s", name) and not name.startswith("/")):
            parted = ", ".join(f'"{piece}"' for piece in name.split())
            self._fail(f'"{name}" is one word, and no program is called so; write argv = [{parted}, …]')
        for word in words:
            if len(word) > MAX_PATTERN:
                self._fail(f"a word of a command has at most {MAX_PATTERN} characters in a rule")
            if re.match(r"~|\$\{|\$\(|\$[A-Z_]+(/|$)|`", word):
                self._fail(f'"{word}": no shell reads this, so it stays as it is; write the path itself, or a *')
            if re.search(r"\{[^{}]*,[^{}]*\}", word):
                self._fail(f'"{word}": no shell reads this, so braces stay as they are; write a rule for each')

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
        if expires is None:
            return None
        if not isinstance(expires, date):  # a datetime is a date, too
            self._fail('"expires" is a date; write expires = 2030-12-31, without quotes')
        try:
            if isinstance(expires, datetime):
                return expires.timestamp()
            return datetime.combine(expires + timedelta(days=1), time()).timestamp()
        except (OverflowError, ValueError):  # at the ends of the calendar
            return math.inf if expires.year > 2000 else -math.inf

    def _fail(self, what: str) -> NoReturn:
        raise RulesError(f"{self.where}: {what}")
