"""Reads a database file page by page, without SQLite: every row with a correct checksum can be saved.

Only leaf pages of tables matter: each row of ours names its session, and its checksum shows whether it is intact.
So no index, no header and no page above is needed, and it does no harm to look at pages that are no longer in use.
"""

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

PAGE = 4096  # SQLite's default, which is ours
LEAF = 0x0D
OTHERS = (0x00, 0x02, 0x0A)  # overflow and index pages; no single flipped bit turns a leaf into one of them
MAX_PAYLOAD = 64 * 1024 * 1024
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # serial types and their bytes
_FLOAT = 7
_float = struct.Struct(">d")

Row = list[int | float | str | bytes | None]


def salvaged_rows(file: Path) -> Iterator[tuple[int, Row]]:
    """Everything that looks like a row of a table, in a database and its write-ahead log, with the row's number.

    Older versions of a row come first.  Only the row's own checksum shows whether it and its session are intact.
    """
    pages = _Pages(file)
    for page, start in pages.candidates():
        yield from _rows(page, start, pages)


class _Pages:
    """The pages of a database and the versions of them in its log."""

    def __init__(self, file: Path) -> None:
        self._data = _contents(file)
        self._log = _contents(file.with_name(file.name + "-wal"))
        self._versions: dict[int, list[int]] = {}  # offsets in the log of each page's versions
        for place in range(32, len(self._log) - 24 - PAGE + 1, 24 + PAGE):
            number = int.from_bytes(self._log[place : place + 4], "big")
            self._versions.setdefault(number, []).append(place + 24)

    def candidates(self) -> Iterator[tuple[bytes, int]]:
        """Every version of every page, oldest first, and where its header begins."""
        for place in range(0, len(self._data), PAGE):
            yield self._data[place : place + PAGE].ljust(PAGE, b"\0"), 0 if place else 100
        for number, places in self._versions.items():
            for place in places:
                yield self._log[place : place + PAGE], 100 if number == 1 else 0

    def page(self, number: int) -> bytes:
        """The latest version of a page."""
        if places := self._versions.get(number):
            return self._log[places[-1] : places[-1] + PAGE]
        return self._data[(number - 1) * PAGE : number * PAGE]


def _contents(file: Path) -> bytes | mmap.mmap:
    """A file's bytes, which need not fit into memory."""
    try:
        with file.open("rb") as opened:
            return mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    except (FileNotFoundError, ValueError):  # there is none, or it is empty
        return b""


def _rows(page: bytes, start: int, pages: _Pages) -> Iterator[tuple[int, Row]]:
    """Candidates for rows on a page; its header may be damaged, so neither its kind nor its count is used."""
    if page[start] in OTHERS:
        return
    cells = list(_cells(page, start))
    count = int.from_bytes(page[start + 3 : start + 5], "big") if page[start] == LEAF else 0
    for place in [*cells[count:], *cells[:count]]:  # entries after the last may be old
        try:
            number, payload = _payload(page, place, pages)
            yield number, _values(payload)
        except (IndexError, ValueError):
            continue  # not a row, or no longer one


def _cells(page: bytes, start: int) -> Iterator[int]:
    """Where rows may begin: the numbers after the header, up to the first row."""
    first = PAGE
    for place in range(start + 8, PAGE - 1, 2):
        if place >= first:
            return
        cell = int.from_bytes(page[place : place + 2], "big")
        if not any(page[place : place + 4]):  # after the last
            return
        if cell > place:
            first = min(first, cell)
            yield cell


def _payload(page: bytes, place: int, pages: _Pages) -> tuple[int, bytes]:
    """A row's number and bytes; those that do not fit on this page are on overflow pages."""
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
        length = _INTEGERS.get(kind, 8 if kind == _FLOAT else 0) if kind < 12 else (kind - 12) // 2
        data = payload[place : place + length]
        place += length
        if len(data) < length:
            raise ValueError("cut off")
        row.append(_value(kind, data))
    return row


def _value(kind: int, data: bytes) -> int | float | str | bytes | None:
    if kind >= 12:
        return data.decode(errors="replace") if kind % 2 else data
    if kind in (8, 9):
        return kind - 8
    if kind == _FLOAT:
        return _float.unpack(data)[0]  # type: ignore[no-any-return]
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
