"""Refuse heads of HTTP/1.1 requests about whose end a server and a proxy in front of it could disagree.

h11 is as lenient as the standard allows.  A server behind a proxy must not be lenient: if the two disagree where a
request ends, the rest can contain a second, hidden request.
"""

import re
from collections.abc import Iterable

# A line feed alone, a carriage return alone, a folded line, or a control character.
_FAULT = re.compile(rb"(?<!\r)\n|\r[^\n]|\n[ \t]|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_END = b"\r\n\r\n"


def is_faulty(unread: bytes, looked: int = 0) -> bool:
    """Whether the head at the beginning of unread bytes breaks lines in a way that a strict reader refuses.

    `looked` is how many of the bytes were checked before; bytes after the head are not checked.
    """
    end = unread.find(_END, max(0, looked - len(_END)))
    head = unread if end < 0 else unread[: end + len(_END)]
    return _FAULT.search(head, max(0, looked - 2)) is not None


def is_ambiguous(method: bytes, version: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether the length of a request's body could be read in two ways; h11 refuses lengths that differ."""
    names = {name for name, _ in headers}  # h11 gives names in lower case
    has_length, has_coding = b"content-length" in names, b"transfer-encoding" in names
    if has_coding and (has_length or version != b"1.1"):  # an HTTP/1.0 proxy passes chunks on as they are
        return True
    return method == b"GET" and b"upgrade" in names and (has_length or has_coding)


def is_chunked(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a body ends at its last chunk; readers differ in where that is."""
    return any(name == b"transfer-encoding" for name, _ in headers)
