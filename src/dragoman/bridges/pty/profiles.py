"""Profiles of terminal programs: how each shows that it waits for input, and how it asks questions.

Profiles come from the `programs.toml` of this package and from the user's own, which takes precedence.
"""

import fnmatch
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from ...errors import Error
from ...foundation.directories import config_directory
from ...foundation.suggesting import choices
from ...host.disk import plain_content
from ...schema import PermissionOption, PermissionOptionKind
from ...schema.base import Bare

MAX_FILE = 256 * 1024  # bytes of programs.toml
SILENCE = 2.0  # seconds of silence that count as waiting, for a program without a profile


class ProfileError(Error):
    """A profile does not exist, or cannot be used."""


def _check_regex(what: str, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as exc:
        raise ValueError(f"{what} {pattern!r} is not a regular expression: {exc}") from None


def _check_pattern(what: str, pattern: str) -> None:
    _check_regex(what, pattern)
    if re.search(pattern, ""):
        raise ValueError(f"{what} {pattern!r} matches an empty line, so the program would always count as waiting")


class TypedAnswer(Bare, kw_only=True, forbid_unknown_fields=True):
    """An answer to a program's question: its meaning, and the text typed for it."""

    name: str
    kind: PermissionOptionKind
    types: str
    where: str = ""  # offered only if the question contains this


YES_OR_NO = (
    TypedAnswer(name="Yes", kind="allow_once", types="y"),
    TypedAnswer(name="No", kind="reject_once", types="n"),
)


class ProgramQuestion(Bare, kw_only=True, forbid_unknown_fields=True):
    """A question of a program: its pattern at the cursor, and its answers."""

    pattern: str
    options: Sequence[TypedAnswer] = YES_OR_NO

    def __post_init__(self) -> None:
        _check_pattern("pattern", self.pattern)
        if not any(option.kind.startswith("reject") for option in self.options):
            raise ValueError("a question needs an option that rejects, which is typed when the user does not allow")

    def offered(self, line: str) -> list[tuple[PermissionOption, str]]:
        """The options of a question, each with the text typed for it."""
        return [
            (PermissionOption(option_id=f"{number}", name=each.name, kind=each.kind), each.types)
            for number, each in enumerate(self.options)
            if each.where in line
        ]


# Questions common to many programs: [y/n], (Y/n), (yes/no), [y/N/a] …
USUAL = (ProgramQuestion(pattern=r"(?i)[\[(]\s*y(?:es)?\s*/\s*n(?:o)?(?:\s*/\s*\w+)*\s*[\])]\s*[:?]?\s*$"),)


class Profile(Bare, kw_only=True, forbid_unknown_fields=True):
    """The profile of a program; without a prompt pattern, silence counts as waiting."""

    title: str = ""
    commands: Sequence[str] = ()
    arguments: str = ""
    args: Sequence[str] = ()
    env: Mapping[str, str] = {}
    prompt: str | None = None
    silence: float | None = None
    begin: str | None = None
    end: str | None = None
    questions: Sequence[ProgramQuestion] = ()

    def __post_init__(self) -> None:
        if self.prompt is not None:
            _check_pattern("prompt", self.prompt)
        _check_regex("arguments", self.arguments)
        if self.silence is not None and not 0 < self.silence <= 3600:
            raise ValueError("silence must be a number of seconds, at most 3600")

    def is_for(self, command: Sequence[str]) -> bool:
        """Whether the profile is for a command."""
        program, arguments = os.path.basename(command[0]), " ".join(command[1:])
        is_named = any(fnmatch.fnmatchcase(program, word) for word in self.commands)
        return is_named and re.search(self.arguments, arguments) is not None

    @property
    def all_questions(self) -> Iterator[ProgramQuestion]:
        """The questions to look for; those of the program come first."""
        yield from self.questions
        yield from USUAL

    def lines(self, text: str) -> list[str]:
        """The lines typed for a prompt."""
        lines = text.split("\n")
        if len(lines) < 2:
            return lines
        begin = [] if self.begin is None else [self.begin]
        return [*begin, *lines, *([] if self.end is None else [self.end])]


UNKNOWN = Profile(silence=SILENCE)


def find_profile(command: Sequence[str], name: str | None = None, user_file: Path | None = None) -> Profile:
    """The profile of a program, by its own name or by its command; raises ProfileError."""
    profiles = known_profiles(user_file)
    if name is not None:
        if name not in profiles:
            raise ProfileError(f"there is no program {name!r}; {choices(name, profiles)}")
        return profiles[name]
    return next((each for each in profiles.values() if each.is_for(command)), UNKNOWN)


def known_profiles(user_file: Path | None = None) -> dict[str, Profile]:
    """All profiles by their names; the user's take precedence over those of the package."""
    own = user_file or config_directory() / "programs.toml"
    users = _read(own) if os.path.lexists(own) else {}
    shipped = _read(Path(__file__).with_name("programs.toml"))
    return {**users, **{name: profile for name, profile in shipped.items() if name not in users}}


def _read(file: Path) -> dict[str, Profile]:
    try:
        tables: dict[str, object] = tomllib.loads(plain_content(file, MAX_FILE).decode())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise ProfileError(f"cannot read {file}: {exc}") from None
    profiles = {}
    for name, table in tables.items():
        if isinstance(table, dict) and (unknown := sorted(table.keys() - set(Profile.__struct_fields__))):
            told = f"program {name!r} has the unknown key {unknown[0]!r}"
            raise ProfileError(f"{file}: {told}; {choices(unknown[0], Profile.__struct_fields__)}")
        try:
            profiles[name] = msgspec.convert(table, Profile)
        except msgspec.ValidationError as exc:
            raise ProfileError(f"{file}: program {name!r}: {exc}") from None
    return profiles
