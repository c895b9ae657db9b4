"""Files read at the start: the tabs of the last run, and the user's settings."""

import contextlib
import os
import tomllib
from pathlib import Path

import msgspec
from msgspec import Struct

from ...errors import Error
from ...foundation.directories import config_directory, state_directory

MAX_FILE = 256 * 1024  # bytes


class KeptTab(Struct):
    """A conversation that was open when the user quit."""

    agent: str
    session: str
    cwd: str


class KeptLayout(Struct):
    """The tabs that were open when the user quit."""

    tabs: list[KeptTab] = []

    def save(self, path: Path | None = None) -> None:
        """Save the layout; write errors are ignored."""
        path = path or _path()
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            aside = path.with_suffix(f".{os.getpid()}")
            aside.write_bytes(msgspec.json.encode(self))
            aside.replace(path)

    @classmethod
    def load(cls, path: Path | None = None) -> "KeptLayout":
        """The saved layout; empty if there is none or it cannot be read."""
        try:
            with open(path or _path(), "rb") as file:
                return msgspec.json.decode(file.read(MAX_FILE), type=cls)
        except (OSError, msgspec.DecodeError):
            return cls()


class TuiSettings(Struct, forbid_unknown_fields=True):
    """The user's settings: the theme, and keys by the ids of their bindings."""

    theme: str = ""
    keys: dict[str, str] = {}

    @classmethod
    def load(cls, path: Path | None = None) -> "TuiSettings":
        """Load the settings from `tui.toml`; raises Error with the file's name if they are invalid."""
        path = path or config_directory() / "tui.toml"
        try:
            with open(path, "rb") as file:
                return msgspec.convert(tomllib.load(file), cls)
        except FileNotFoundError:
            return cls()
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as exc:
            raise Error(f"cannot read {path}: {exc}") from None


def _path() -> Path:
    return state_directory() / "tui" / "layout.json"
