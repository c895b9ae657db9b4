"""How far a log got, stored outside its database, so that a database that went back in time is noticed."""

import os
import sqlite3
import struct
from pathlib import Path

from .locks import opened_file

_NUMBER = struct.Struct("<Q")


class Tip:
    """The number of the last record that was committed, in a file of its own."""

    def __init__(self, path: Path) -> None:
        self._fd = opened_file(path)

    def note(self, number: int) -> None:
        os.pwrite(self._fd, _NUMBER.pack(number), 0)

    def known(self) -> int:
        tip = os.pread(self._fd, _NUMBER.size, 0)
        number: int = _NUMBER.unpack(tip)[0] if len(tip) == _NUMBER.size else 0
        return number

    def check(self, db: sqlite3.Connection) -> None:
        """Raise if the database's records end before the stored number."""
        known = self.known()  # read first: another process may go on writing
        row = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'records'").fetchone()
        reached = row[0] if row else 0
        if type(reached) is not int or known > reached:
            raise sqlite3.DatabaseError(f"its records end at {reached}, not at {known}")

    def close(self) -> None:
        os.close(self._fd)
