"""Gives back the space of deleted rows, a little at a time, so that none of their content is left."""

import sqlite3

STEP_PAGES = 256  # given back to the disk at a time


def give_back(db: sqlite3.Connection) -> bool:
    """Return some unused pages to the disk; false when there are no more."""
    (before,) = db.execute("PRAGMA freelist_count").fetchone()
    if before:
        # `execute` would take one step of it, which frees one page.
        db.executescript(f"PRAGMA incremental_vacuum({STEP_PAGES})")
    (after,) = db.execute("PRAGMA freelist_count").fetchone()
    return bool(0 < after < before)


def empty_log(db: sqlite3.Connection) -> bool:
    """Empty the write-ahead log, which still has deleted rows; false while another process reads."""
    (is_busy, _, _) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return not is_busy
