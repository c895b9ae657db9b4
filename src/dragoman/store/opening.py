"""Opening a store."""

from pathlib import Path

from .database import Database, Level


def opened(path: Path, level: Level) -> Database:
    """The database at a path."""
    return Database(path, level)
