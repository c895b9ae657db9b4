"""What comes back at the next start: the tabs, each with its agent and session, and the person's keys."""

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
    """A conversation as it was left."""

    agent: str
    session: str
    cwd: str


class KeptLayout(Struct):
    """The tabs as they were left."""

    tabs: list[KeptTab] = []

    def save(self, path: Path | None = None) -> None:
        """Keep it; should that fail, the next start begins anew."""
        path = path or _path()
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            aside = path.with_suffix(f".{os.getpid()}")
            aside.write_bytes(msgspec.json.encode(self))
            aside.replace(path)

    @classmethod
    def load(cls, path: Path | None = None) -> "KeptLayout":
        """The layout that was kept; none where there is none."""
        try:
            with open(path or _path(), "rb") as file:
                return msgspec.json.decode(file.read(MAX_FILE), type=cls)
        except (OSError, msgspec.DecodeError):
            return cls()


class TuiSettings(Struct, forbid_unknown_fields=True):
    """The person's own settings: colours, and keys by what they do."""

    theme: str = ""
    keys: dict[str, str] = {}

    @classmethod
    def load(cls, path: Path | None = None) -> "TuiSettings":
        """The settings in `tui.toml`; what is wrong with them is told with the file's name."""
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
