"""Deletes a session a little at a time, beside running sessions, and without leaving any bytes of it."""

import sqlite3

STEP_BYTES = 1024 * 1024  # bytes of records deleted in one transaction
STEP_ROWS = 500


def begin(db: sqlite3.Connection, session: str) -> None:
    """Record that a session will be deleted, so that its deletion is finished even after a crash."""
    db.execute("INSERT OR IGNORE INTO doomed VALUES (?)", (session,))
    db.execute("DELETE FROM leases WHERE name = ?", (session,))


def go_on(db: sqlite3.Connection, session: str) -> bool:
    """Delete some of a session's rows; false if there were none left."""
    rows = db.execute(
        "SELECT id, length(frame) FROM records WHERE session = ? ORDER BY number LIMIT ?", (session, STEP_ROWS)
    ).fetchall()
    if rows:
        size, ids = 0, []
        for id, length in rows:
            ids.append((id,))
            size += length
            if size > STEP_BYTES:
                break
        db.executemany("DELETE FROM records WHERE id = ?", ids)
        return True
    blob = db.execute("SELECT rowid FROM blobs WHERE session = ? LIMIT 1", (session,)).fetchone()
    if blob:
        db.execute("DELETE FROM blobs WHERE rowid = ?", blob)
        return True
    db.execute("DELETE FROM doomed WHERE session = ?", (session,))
    return False
