"""Replaces a damaged database by a rebuilt one; the damaged files are kept beside it."""

import datetime
import logging
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from ...errors import Error
from ..places import NOT_OURS, QUARANTINE, REBUILT

log = logging.getLogger("dragoman")

KEPT = 8  # sets of damaged files that are kept for inspection
# Results of SQLite that say nothing about the file: busy, full, read-only, ...
_HARMLESS = {3, 5, 6, 7, 8, 9, 10, 13, 14, 23}
_SHORT_READ = 522


def is_damage(exc: BaseException) -> bool:
    """Whether an error from opening or reading a file may mean that the file is damaged.

    It may unless the error is known to mean something else: a flipped bit can lead to any error.
    """
    if not isinstance(exc, Exception) or isinstance(exc, Error | OSError | MemoryError | sqlite3.ProgrammingError):
        return False
    if not isinstance(exc, sqlite3.Error):
        return True
    code = getattr(exc, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    return code == _SHORT_READ or code & 0xFF not in _HARMLESS


def is_certain(exc: BaseException) -> bool:
    """Whether an error is SQLite's report of a damaged file, and not the fault of a program."""
    return isinstance(exc, sqlite3.DatabaseError) and is_damage(exc)


def replace(
    file: Path, make: Callable[[sqlite3.Connection], None], why: object, let_go: Callable[[], None]
) -> Path:
    """Replace a damaged database by one with its intact rows; returns the new place of the damaged files.

    `make` fills the new database with the intact rows; then `let_go` closes the damaged one.
    """
    log.error("%s is damaged (%s); its intact parts are being saved", file, why)
    rebuilt = file.with_name(REBUILT)
    rebuilt.unlink(missing_ok=True)
    rebuilt.touch(0o600)
    db = sqlite3.connect(rebuilt, isolation_level=None)
    try:
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        make(db)
    finally:
        db.close()
    let_go()
    kept = put_in_place(file)
    log.error("%s was made anew; the damaged files are in %s", file, kept)
    return kept


def put_in_place(file: Path) -> Path:
    """Move the damaged files away and the new file to their place."""
    kept = _moved_away(file.parent, QUARANTINE, [path for path in (file, *beside(file)) if path.exists()])
    file.with_name(REBUILT).rename(file)
    _sync(file.parent)
    for old in sorted(file.parent.glob(f"{QUARANTINE}*"))[:-KEPT]:
        shutil.rmtree(old)
    return kept


def foreign_files(file: Path, tip: Path) -> list[Path]:
    """Paths of a database's files that are something else: a directory, a pipe.  A symlink may be intended."""
    rebuilt = file.with_name(REBUILT)
    ours = (file, *beside(file), rebuilt, *beside(rebuilt), tip)
    kinds = {path: stat.S_IFMT(path.lstat().st_mode) for path in ours if os.path.lexists(path)}
    return [path for path, kind in kinds.items() if kind not in (stat.S_IFREG, stat.S_IFLNK)]


def set_aside(found: Sequence[Path]) -> None:
    """Move foreign files away from our paths, unchanged, since they belong to somebody."""
    kept = _moved_away(found[0].parent, NOT_OURS, found)
    names = ", ".join(path.name for path in found)
    log.error("%s: %s is no file of ours, and was moved to %s", found[0].parent, names, kept)


def _moved_away(directory: Path, prefix: str, paths: Sequence[Path]) -> Path:
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S%f")
    kept = directory / f"{prefix}{stamp}"
    kept.mkdir(mode=0o700)
    for path in paths:
        path.rename(kept / path.name)
    return kept


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def clear_up(file: Path) -> None:
    """Finish or undo an interrupted replacement."""
    rebuilt = file.with_name(REBUILT)
    if rebuilt.exists() and not file.exists():
        put_in_place(file)
    for path in (rebuilt, *beside(rebuilt)):
        path.unlink(missing_ok=True)


def beside(file: Path) -> list[Path]:
    """The files that SQLite keeps beside a database."""
    return [file.with_name(file.name + suffix) for suffix in ("-wal", "-shm", "-journal")]
