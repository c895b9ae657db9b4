"""The sessions in SQLite: their holders, their logs, and changes of them.

A session has one holder, the process that has it open; a holder that died does not count.
"""

import contextlib
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from ..errors import SessionBusy, SessionCorrupted, SessionTaken, SessionUnknown, StoreFailure
from ..interruption import closing_lines, damage_line
from ..lines import STATE, Head, Opened, StateChange, now, own, state_line
from ..places import QUARANTINE
from ..records import Damage, fold_all, head_checksum, packed, portions, read, read_head, start_of, state_checksum
from .connecting import Level
from .file import HOLDERS, StoreFile
from .locks import is_alive
from .thread import attempted
from .vacuum import give_back

Entry = tuple[str, bytes]  # a session and a line for its log

_state = msgspec.json.Decoder(StateChange)


class SessionSummary(Struct, frozen=True):
    """A session as a list shows it."""

    id: str
    head: Head
    suspect: str | None = None  # why the session may be damaged


class Database(StoreFile):
    """The sessions of a store; used by one thread at a time."""

    def __init__(self, path: Path, level: Level = "process") -> None:
        self._heads: dict[str, Head] = {}  # the heads of the sessions that we hold
        self._owners: dict[str, object] = {}
        super().__init__(path, level)

    def _came_back(self) -> None:
        ours, self._heads = self._claim.name, {}
        for id in self._owners:  # a database that was made anew has no holders
            self.db.execute("UPDATE sessions SET holder = ? WHERE id = ? AND holder IS NULL", (ours, id))
            with contextlib.suppress(SessionCorrupted):
                if self._is_ours(id):
                    self._heads[id] = self._read_head(id)
        self._owners = {id: self._owners[id] for id in self._heads}

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error, StoreFailure):  # those of a dead process count as released anyway
            self._let_go(list(self._owners))
        super().close()

    # Writing

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        heads, owners = self._heads.copy(), self._owners.copy()
        try:
            with super().transaction():
                yield
        except BaseException:
            self._heads, self._owners = heads, owners
            raise

    def append(self, entries: Iterable[Entry]) -> None:
        """Add lines to sessions we hold, within a transaction."""
        by_session: dict[str, list[bytes]] = {}
        for id, line in entries:
            if id in self._heads:  # a session may have been deleted meanwhile
                by_session.setdefault(id, []).append(line)
        for id, lines in by_session.items():
            self._heads[id] = self._write(id, self._heads[id], lines)

    def _write(self, id: str, before: Head, lines: list[bytes]) -> Head:
        """Append lines; returns the new head, and leaves the previous one unchanged."""
        head = before.copied()
        first = head.last + 1
        if states := [line for line in lines if line.startswith(STATE)]:
            for line in states:
                self._write_state(id, _state.decode(line[1:]))
            (head.states,) = self.db.execute("SELECT count(*) FROM states WHERE session = ?", (id,)).fetchone()
            lines = [line for line in lines if not line.startswith(STATE)]
        head.fold(lines)
        head.updated = now()
        for row in packed(id, first, lines):
            self._number = self.db.execute(
                "INSERT INTO records (session, first, count, body, crc) VALUES (?, ?, ?, ?, ?)", row
            ).lastrowid
            self._logged += len(row[3]) + 8192
        body = msgspec.json.encode(head)
        self.db.execute("UPDATE sessions SET head = ?, crc = ? WHERE id = ?", (body, head_checksum(id, body), id))
        return head

    def _write_state(self, id: str, change: StateChange) -> None:
        self.db.executemany("DELETE FROM states WHERE session = ? AND key = ?", [(id, key) for key in change.drop])
        for key, raw in change.put.items():
            value = bytes(raw)
            row = (id, key, value, state_checksum(id, key, value))
            self.db.execute("INSERT OR REPLACE INTO states (session, key, value, crc) VALUES (?, ?, ?, ?)", row)
            self._logged += len(value)

    def add(self, id: str, line: bytes, owner: object) -> None:
        """Add a line to a session that is not open."""
        with self.transaction():
            self.acquire(id, owner)
            self.append([(id, line)])
            self.release([id], owner)

    # A session's life

    def create(self, id: str, opened: Opened, owner: object) -> Head:
        """Make a session and hold it."""
        with self.transaction():
            self._insert(id, self._claim.name)
            self._heads[id], self._owners[id] = self._write(id, Head(), [own(opened)]), owner
        return self._heads[id]

    def _insert(self, id: str, holder: str | None, suspect: str | None = None) -> None:
        if self.db.execute("SELECT 1 FROM sessions WHERE id = ?", (id,)).fetchone():
            raise SessionTaken(id)
        empty = msgspec.json.encode(Head())
        row = (id, empty, head_checksum(id, empty), holder, suspect)
        self.db.execute("INSERT INTO sessions (id, head, crc, holder, suspect) VALUES (?, ?, ?, ?, ?)", row)
        self._count(1)

    def acquire(self, id: str, owner: object) -> SessionSummary:
        """Hold a session; first end a turn that a crash left open."""
        with self.transaction():
            row = self.db.execute("SELECT holder, suspect FROM sessions WHERE id = ?", (id,)).fetchone()
            if row is None:
                raise self._unknown(id)
            self._refuse_if_held(id, row[0], owner)
            if id not in self._heads:
                self._heads[id] = self._read_head(id)
                self.db.execute("UPDATE sessions SET holder = ? WHERE id = ?", (self._claim.name, id))
            self._owners[id] = owner
            if row[0] != self._claim.name:
                self.append([(id, line) for line in self.closing(id)])
        return SessionSummary(id, self._heads[id], row[1])

    def closing(self, id: str) -> list[bytes]:
        """The lines that end an open turn of a session that we hold."""
        head = self._heads[id]
        if head.turn is None:
            return []
        start = start_of(self.db, id, head.since)
        lines = [line for part in read(self.db, id, start, head.last) if isinstance(part, list) for line in part]
        return closing_lines(head.turn, lines[head.since - start :])

    def _refuse_if_held(self, id: str, holder: str | None, owner: object) -> None:
        if holder == self._claim.name:
            if self._owners.get(id, owner) is not owner:
                raise SessionBusy(id, "in another connection")
        elif holder and is_alive(self.path / HOLDERS, holder):
            raise SessionBusy(id, f"in another process ({holder.partition('-')[0]})")

    def release(self, ids: Sequence[str], owner: object) -> None:
        """Release those of the sessions that this owner holds."""
        if theirs := [id for id in ids if self._owners.get(id) is owner]:
            self._let_go(theirs)

    def _let_go(self, ids: Sequence[str]) -> None:
        with self.transaction():
            for id in ids:
                self.db.execute(
                    "UPDATE sessions SET holder = NULL WHERE id = ? AND holder = ?", (id, self._claim.name)
                )
                self._forget(id)

    def _forget(self, id: str) -> None:
        self._heads.pop(id, None)
        self._owners.pop(id, None)

    def delete(self, id: str, owner: object = None) -> bool:
        """Forget a session so that none of its bytes is left in any file of the store."""
        with self.transaction():
            row = self.db.execute("SELECT holder FROM sessions WHERE id = ?", (id,)).fetchone()
            if row is not None:
                self._refuse_if_held(id, row[0], owner)
                self._count(-1)
            for table, column in (("sessions", "id"), ("records", "session"), ("states", "session")):
                self.db.execute(f"DELETE FROM {table} WHERE {column} = ?", (id,))
            self._forget(id)
        self.remove_leftovers()
        return row is not None

    def remove_leftovers(self) -> None:
        """Remove leftovers of deleted sessions: unused pages, the log, damaged files."""
        for kept in self.path.glob(f"{QUARANTINE}*"):
            shutil.rmtree(kept)
        is_more = True
        while is_more:
            with self._lock.held():  # a transaction for each step, so that others can write between the steps
                is_more = give_back(self.db)
        with self._lock.held():
            if not self._checkpoint("TRUNCATE"):
                raise StoreFailure(
                    "The session is deleted, but somebody reads the store; delete it again to be sure"
                )

    def fork(self, id: str, new_id: str, opened: Opened, owner: object) -> SessionSummary:
        """Make a session that begins with the whole log of another one."""
        with self.transaction():
            row = self.db.execute("SELECT suspect FROM sessions WHERE id = ?", (id,)).fetchone()
            if row is None:
                raise self._unknown(id)
            source = self._read_head(id)
            self._insert(new_id, self._claim.name, row[0])
            head = self._write(new_id, Head(), [own(opened)])
            for part in read(self.db, id, 2, source.last):
                head = self._write(new_id, head, part if isinstance(part, list) else [damage_line(part)])
            state, _ = self.states(id, source)
            head = self._write(new_id, head, [state_line(state)])
            self._heads[new_id], self._owners[new_id] = head, owner
            self.append([(new_id, line) for line in self.closing(new_id)])
        return SessionSummary(new_id, self._heads[new_id], row[0])

    def adopt(self, id: str, lines: Iterable[bytes]) -> str:
        """Import an exported session; nobody holds it afterwards."""
        with self.transaction():
            self._insert(id, None)
            head = Head()
            for some in portions(lines):
                head = self._write(id, head, some)
        return id

    # Reading

    def summaries(self) -> Iterator[SessionSummary]:
        """All sessions; an entry that cannot be read is listed as damaged."""
        rows = self.db.execute("SELECT id, head, crc, suspect FROM sessions").fetchall()
        count = self.db.execute("SELECT value FROM meta WHERE key = 'sessions'").fetchone()
        if count != (len(rows),):
            raise sqlite3.DatabaseError(f"{count} sessions are counted, {len(rows)} are there")
        for id, head, crc, suspect in rows:
            if type(id) is not str:
                raise sqlite3.DatabaseError(f"a session has the invalid id {id!r}")
            if type(head) is bytes and crc == head_checksum(id, head):
                yield SessionSummary(id, read_head(head), suspect)
            else:
                with contextlib.suppress(SessionCorrupted):
                    yield SessionSummary(id, self._folded(id), suspect or "its entry in the list is damaged")
                    continue
                yield SessionSummary(id, Head(), "nothing of it can be read")

    def summary(self, id: str) -> SessionSummary:
        row = self.db.execute("SELECT suspect FROM sessions WHERE id = ?", (id,)).fetchone()
        if row is None:
            raise self._unknown(id)
        return SessionSummary(id, self._heads.get(id) or self._read_head(id), row[0])

    def _unknown(self, id: str) -> Exception:
        """The error for a missing session; a damaged store may have lost it, or still have it."""
        if self.db.execute("SELECT 1 FROM sessions NOT INDEXED WHERE id = ?", (id,)).fetchone():
            raise sqlite3.DatabaseError(f"the session {id} exists, but is not found by its index")
        if self.db.execute("SELECT value FROM meta WHERE key = 'rebuilt'").fetchone():
            kept = ", ".join(path.name for path in sorted(self.path.glob(f"{QUARANTINE}*")))
            return SessionCorrupted(id, f"not found in a store that was damaged; the damaged files are in {kept}")
        return SessionUnknown(id)

    def listed(self) -> list[SessionSummary]:
        """All sessions; a damaged database is repaired first."""
        return attempted(self, lambda db: list(db.summaries()))

    def found(self, id: str) -> SessionSummary:
        """One session; a damaged database is repaired first."""
        return attempted(self, lambda db: db.summary(id))

    def lines(self, id: str, last: int) -> Iterator[list[bytes] | Damage]:
        """The whole log of a session; the first fault found starts a check of the whole database."""
        place, is_mended = 1, False
        while True:
            try:
                for part in read(self.db, id, place, last):
                    if isinstance(part, Damage) and not is_mended:
                        is_mended = True
                        if self.mend():
                            break
                    yield part
                    place = part.last + 1 if isinstance(part, Damage) else place + len(part)
                else:
                    return
            except Exception as exc:
                if is_mended or not self.mend(exc):
                    raise
                is_mended = True

    def states(self, id: str, head: Head) -> tuple[dict[str, bytes], list[str]]:
        """The author's state of a session, by key, and a report of the damaged keys."""
        rows = self.db.execute("SELECT key, value, crc FROM states WHERE session = ?", (id,)).fetchall()
        whole, damaged = dict[str, bytes](), list[str]()
        for key, value, crc in rows:
            if type(value) is bytes and crc == state_checksum(id, key, value):
                whole[key] = value
            else:
                damaged.append(f"the agent's own note {key!r} (damaged)")
        if missing := max(0, head.states - len(rows)):
            damaged.append(f"{missing} of the agent's own notes (missing)")
        return whole, damaged

    def _read_head(self, id: str) -> Head:
        head, crc = self.db.execute("SELECT head, crc FROM sessions WHERE id = ?", (id,)).fetchone()
        if type(head) is bytes and crc == head_checksum(id, head):
            return read_head(head)
        return self._folded(id)

    def _folded(self, id: str) -> Head:
        """A head rebuilt from the log."""
        row = self.db.execute("SELECT max(first + count - 1) FROM records WHERE session = ?", (id,)).fetchone()
        if type(row[0]) is not int:
            raise SessionCorrupted(id, "neither its entry nor any of its records can be read")
        return fold_all(self.db, id, row[0])

    def _is_ours(self, id: str) -> bool:
        row = self.db.execute("SELECT holder FROM sessions WHERE id = ?", (id,)).fetchone()
        return row is not None and row[0] == self._claim.name

    def _count(self, change: int) -> None:
        self.db.execute("UPDATE meta SET value = value + ? WHERE key = 'sessions'", (change,))

    def verify(self) -> Iterator[tuple[str, str]]:
        """Check every page and every record; returns the problems, each with its session."""
        if self.mend():
            yield "", "the database was damaged and was made anew from its intact parts"
        for summary in self.listed():
            if summary.suspect:
                yield summary.id, summary.suspect
            yield from (
                (summary.id, str(part))
                for part in self.lines(summary.id, summary.head.last)
                if isinstance(part, Damage)
            )
            yield from ((summary.id, damage) for damage in self.states(summary.id, summary.head)[1])
        for path in sorted(self.path.glob(f"{QUARANTINE}*")):
            yield "", f"damaged files of an earlier day are in {path}"
