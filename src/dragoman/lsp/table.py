"""Which language servers there are: a table of well-known ones, and the user's own over it.

Both are data.  Nothing of a workspace is in them, and no program of a workspace is found for them.
"""

import functools
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ..errors import Error
from ..foundation.directories import config_directory
from ..foundation.documents import Document
from ..foundation.programs import find_program
from ..host.disk import plain_content
from ..schema.base import Bare

MAX_FILE = 256 * 1024  # bytes of the user's table
FILE = "language-servers.toml"


class LanguageTableError(Error):
    """The user's table of language servers cannot be used."""


class CompanionFile(Bare, kw_only=True, forbid_unknown_fields=True):
    """A file that a server loads, so that it takes none of the workspace."""

    program: str
    path: str
    option: Sequence[str]


class LanguageServerSpec(Bare, kw_only=True, forbid_unknown_fields=True):
    """One language server: how it is started, and for which files."""

    command: Sequence[str]
    languages: Mapping[str, Sequence[str]]
    diagnostics: Literal["", "tsserver"] = ""
    settings: dict[str, Any] = {}
    options: dict[str, Any] = {}
    companion: CompanionFile | None = None
    enabled: bool = True

    def __post_init__(self) -> None:
        if not self.command:
            raise ValueError("a command has at least one word")

    def language(self, path: str) -> str | None:
        """The id of a file's language, if the server is for it."""
        ending = os.path.splitext(path)[1].lower()
        return next((id for id, endings in self.languages.items() if ending in endings), None)


class InstalledServer(Struct, frozen=True):
    """A language server that is there: its full command, and what it is told at the start."""

    name: str
    spec: LanguageServerSpec
    argv: tuple[str, ...]
    options: Document


@functools.cache
def shipped() -> Mapping[str, LanguageServerSpec]:
    """The table that comes with this package."""
    return _read(Path(__file__).with_name("servers.toml").read_bytes(), "servers.toml")


def known_servers() -> Mapping[str, LanguageServerSpec]:
    """The user's servers, then the well-known ones; raises LanguageTableError."""
    path = config_directory() / FILE
    try:
        own = _read(plain_content(str(path), MAX_FILE), str(path)) if path.exists() else {}
    except OSError as exc:
        raise LanguageTableError(f"{path} cannot be read: {exc.strerror}") from exc
    return {**own, **{name: spec for name, spec in shipped().items() if name not in own}}


def _read(content: bytes, name: str) -> dict[str, LanguageServerSpec]:
    try:
        given = tomllib.loads(content.decode())
        known = {} if name == "servers.toml" else shipped()
        return {
            server: msgspec.convert({**_as_given(known.get(server)), **entry}, LanguageServerSpec)
            for server, entry in given.items()
        }
    except (ValueError, TypeError, RecursionError) as exc:
        raise LanguageTableError(f"{name} cannot be used: {exc}") from exc


def _as_given(spec: LanguageServerSpec | None) -> Document:
    """A well-known server as its entry says it, of which the user's may replace a part."""
    return {} if spec is None else msgspec.to_builtins(spec)


def installed(known: Mapping[str, LanguageServerSpec], workspace: str) -> Iterator[InstalledServer]:
    """Those servers whose program is on the PATH, outside the workspace, in the order of the table."""
    for name, spec in known.items():
        program = find_program(spec.command[0], workspace) if spec.enabled else None
        options = None if program is None else _options(spec, workspace)
        if program is not None and options is not None:
            yield InstalledServer(name, spec, (program, *spec.command[1:]), options)


def _options(spec: LanguageServerSpec, workspace: str) -> Document | None:
    """What a server is told at its start; None where the file that it has to load is not there."""
    if (companion := spec.companion) is None:
        return spec.options
    program = find_program(companion.program, workspace)
    if program is None:
        return None
    path = os.path.normpath(os.path.join(os.path.dirname(os.path.realpath(program)), companion.path))
    if not os.path.isfile(path):
        return None
    options: Document = {companion.option[-1]: path}
    for word in reversed(companion.option[:-1]):
        options = {word: options}
    return {**spec.options, **options}
