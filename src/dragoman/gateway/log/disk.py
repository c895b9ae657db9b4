"""The disk of a log: the space that the log takes, and the free space."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from ..metrics import Metric, Watched
from .engine import EngineFailure

LEAST_FREE = 16 * 1024 * 1024  # free bytes below which a volume counts as full


class UnreadableLog(EngineFailure):
    """The log cannot be read; a full check shows whether it is damaged."""


def unreadable(why: str) -> UnreadableLog:
    return UnreadableLog(f"the gateway's log cannot be read: {why}")


def free_bytes(file: Path) -> int:
    """The free bytes on a file's volume."""
    return shutil.disk_usage(file.parent).free


def check_room(file: Path) -> None:
    """Raise EngineFailure if the volume is almost full."""
    if (free := free_bytes(file)) < LEAST_FREE:
        raise EngineFailure(f"the volume of {file.parent} is full: {free} bytes are left")


def figures(file: Path, waiting: Callable[[], float]) -> Mapping[str, Metric]:
    """The metrics of a log file and of its waiting writes."""

    def size() -> int:
        return sum(path.stat().st_size for path in file.parent.glob(f"{file.name}*") if path.is_file())

    def one(help: str, read: Callable[[], float]) -> Watched:
        return Watched("gauge", help, lambda: {"": read()})

    return {
        "dragoman_log_bytes": one("Bytes of the log's files.", size),
        "dragoman_log_free_bytes": one("Bytes free on the log's volume.", lambda: free_bytes(file)),
        "dragoman_log_waiting": one("Writes that wait for the log.", waiting),
    }
