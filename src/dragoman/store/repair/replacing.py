"""Puts a database made anew in the place of a damaged one; the damaged files are kept beside it."""

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

KEPT = 8  # times that damaged files are kept, for whoever wants to look at them
# Results of SQLite that say nothing about the file: busy, full, read-only, ...
_HARMLESS = {3, 5, 6, 7, 8, 9, 10, 13, 14, 23}
_SHORT_READ = 522


def is_damage(exc: BaseException) -> bool:
    """Whether an error that came of opening or reading a file may mean that the file is not what it was.

    Everything does that is not known to mean something else: a flipped bit shows as whatever error it leads to.
    """
    if not isinstance(exc, Exception) or isinstance(exc, Error | OSError | MemoryError | sqlite3.ProgrammingError):
        return False
    if not isinstance(exc, sqlite3.Error):
        return True
    code = getattr(exc, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
    return code == _SHORT_READ or code & 0xFF not in _HARMLESS


def is_certain(exc: BaseException) -> bool:
    """Whether an error is SQLite's own word that the file is damaged, and no fault of a program."""
    return isinstance(exc, sqlite3.DatabaseError) and is_damage(exc)


def replace(
    file: Path, make: Callable[[sqlite3.Connection], None], why: object, let_go: Callable[[], None]
) -> Path:
    """Put what was saved of a damaged database in its place; gives where the damaged one now is.

    `make` fills a new one with what is whole; then `let_go` closes the damaged one.
    """
    log.error("%s is damaged (%s); what is whole in it is being saved", file, why)
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
    """Move the damaged files away and the new one in their place."""
    kept = _moved_away(file.parent, QUARANTINE, [path for path in (file, *beside(file)) if path.exists()])
    file.with_name(REBUILT).rename(file)
    _sync(file.parent)
    for old in sorted(file.parent.glob(f"{QUARANTINE}*"))[:-KEPT]:
        shutil.rmtree(old)
    return kept


def strangers(file: Path, tip: Path) -> list[Path]:
    """What is in the place of a database's files and is none: a directory, a pipe; a link may be meant so."""
    rebuilt = file.with_name(REBUILT)
    ours = (file, *beside(file), rebuilt, *beside(rebuilt), tip)
    kinds = {path: stat.S_IFMT(path.lstat().st_mode) for path in ours if os.path.lexists(path)}
    return [path for path, kind in kinds.items() if kind not in (stat.S_IFREG, stat.S_IFLNK)]


def set_aside(found: Sequence[Path]) -> None:
    """Move away what is in our place; it is somebody's, and stays whole."""
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
    """Finish, or undo, what was cut short."""
    rebuilt = file.with_name(REBUILT)
    if rebuilt.exists() and not file.exists():
        put_in_place(file)
    for path in (rebuilt, *beside(rebuilt)):
        path.unlink(missing_ok=True)


def beside(file: Path) -> list[Path]:
    """What SQLite keeps beside a database."""
    return [file.with_name(file.name + suffix) for suffix in ("-wal", "-shm", "-journal")]
