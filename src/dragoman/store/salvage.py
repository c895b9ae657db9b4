"""Reads a database file page by page, without SQLite: whatever still has its right checksum is saved.

Only leaf pages of tables matter: each row of ours says itself whose it is, and its checksum whether it is whole.
So no index, no header and no page above is needed, and it does no harm to look at pages that are no longer in use.
"""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from .lines import Head
from .records import head_checksum, is_whole, read_head, state_checksum

PAGE = 4096  # SQLite's default, which is ours
LEAF = 0x0D
MAX_PAYLOAD = 64 * 1024 * 1024
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # serial types and their bytes

Row = list[int | str | bytes | None]
Saved = tuple[int, str, int, int, bytes, int]  # a record as it is in its table, its number first


class Salvage(Struct):
    """What was found whole."""

    records: dict[tuple[str, int], Saved] = {}
    heads: dict[str, Head] = {}
    states: dict[tuple[str, str], tuple[bytes, int]] = {}

    def take(self, number: int, row: Row) -> None:
        """Keep a row if it is one of ours and whole."""
        match row:
            case [_, str() as session, int() as first, int() as count, bytes() as body, int() as crc]:
                if is_whole(session, first, count, body, crc):
                    self.records[session, first] = number, session, first, count, body, crc
            case [str() as id, bytes() as body, int() as crc, _, _]:
                if crc == head_checksum(id, body):
                    head = read_head(body)
                    if id not in self.heads or head.last >= self.heads[id].last:
                        self.heads[id] = head
            case [str() as session, str() as key, bytes() as value, int() as crc]:
                if crc == state_checksum(session, key, value):
                    self.states[session, key] = value, crc


def salvage(file: Path) -> Salvage:
    """All that is whole in a database and its write-ahead log."""
    found = Salvage()
    pages = _Pages(file)
    for page, start in pages.candidates():
        for number, row in _rows(page, start, pages):
            found.take(number, row)
    return found


class _Pages:
    """The pages of a database and the versions of them in its log."""

    def __init__(self, file: Path) -> None:
        self._data = file.read_bytes() if file.exists() else b""
        log = file.with_name(file.name + "-wal")
        self._log = log.read_bytes() if log.exists() else b""
        self._versions: dict[int, list[int]] = {}  # where in the log a page's versions are
        for place in range(32, len(self._log) - 24 - PAGE + 1, 24 + PAGE):
            number = int.from_bytes(self._log[place : place + 4], "big")
            self._versions.setdefault(number, []).append(place + 24)

    def candidates(self) -> Iterator[tuple[bytes, int]]:
        """Every version of every page, oldest first, and where its own header begins."""
        for place in range(0, len(self._data), PAGE):
            yield self._data[place : place + PAGE].ljust(PAGE, b"\0"), 0 if place else 100
        for number, places in self._versions.items():
            for place in places:
                yield self._log[place : place + PAGE], 100 if number == 1 else 0

    def page(self, number: int) -> bytes:
        """A page as it was last."""
        if places := self._versions.get(number):
            return self._log[places[-1] : places[-1] + PAGE]
        return self._data[(number - 1) * PAGE : number * PAGE]


def _rows(page: bytes, start: int, pages: _Pages) -> Iterator[tuple[int, Row]]:
    if page[start] != LEAF:
        return
    count = int.from_bytes(page[start + 3 : start + 5], "big")
    for cell in range(min(count, PAGE // 4)):
        place = start + 8 + 2 * cell
        try:
            number, payload = _payload(page, int.from_bytes(page[place : place + 2], "big"), pages)
            yield number, _values(payload)
        except (IndexError, ValueError):
            continue  # not a row, or not any more


def _payload(page: bytes, place: int, pages: _Pages) -> tuple[int, bytes]:
    """A row's number and bytes, the first of them here and the others on overflow pages."""
    size, place = _varint(page, place)
    number, place = _varint(page, place)
    if size > MAX_PAYLOAD:
        raise ValueError("too large")
    most = PAGE - 35
    if size <= most:
        return number, page[place : place + size]
    least = (PAGE - 12) * 32 // 255 - 23
    local = least + (size - least) % (PAGE - 4)
    local = local if local <= most else least
    data = bytearray(page[place : place + local])
    following = int.from_bytes(page[place + local : place + local + 4], "big")
    while len(data) < size:
        overflow = pages.page(following)
        if following == 0 or not overflow:
            raise ValueError("cut off")
        data += overflow[4:]
        following = int.from_bytes(overflow[:4], "big")
    return number, bytes(data[:size])


def _values(payload: bytes) -> Row:
    size, place = _varint(payload, 0)
    kinds = []
    while place < size:
        kind, place = _varint(payload, place)
        kinds.append(kind)
    place = size
    row: Row = []
    for kind in kinds:
        length = _INTEGERS.get(kind, 0) if kind < 12 else (kind - 12) // 2
        data = payload[place : place + length]
        place += length
        if len(data) < length:
            raise ValueError("cut off")
        row.append(_value(kind, data))
    return row


def _value(kind: int, data: bytes) -> int | str | bytes | None:
    if kind >= 12:
        return data.decode(errors="replace") if kind % 2 else data
    if kind in (8, 9):
        return kind - 8
    return int.from_bytes(data, "big", signed=True) if kind in _INTEGERS else None


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for count in range(9):
        byte = data[place]
        place += 1
        if count == 8:
            return value << 8 | byte, place
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return value, place
