"""Names of subjects on NATS: their parts are words without the characters with a special meaning."""

import re

_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPED = re.compile(r"=([0-9a-f]{2})")


def token(part: str) -> str:
    """Encode a part of a name as one word of a subject."""
    if _PLAIN.fullmatch(part):
        return part
    return "".join(chr(byte) if _PLAIN.fullmatch(chr(byte)) else f"={byte:02x}" for byte in part.encode()) or "="


def part(token: str) -> str:
    """Decode a word of a subject."""
    if token == "=":
        return ""
    whole = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), token)
    return whole.encode("latin-1").decode()


class Subjects:
    """The subjects of one gateway, or of several that share their data."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def log(self, session: str) -> str:
        return f"{self.prefix}.log.{token(session)}"

    def tail(self, session: str) -> str:
        """The subject on which new messages of a log are published."""
        return f"{self.prefix}.tail.{token(session)}"

    def lease(self, name: str) -> str:
        return f"{self.prefix}.lease.{token(name)}"

    def calls(self, owner: str) -> str:
        """Where requests about the sessions of one owner of leases go."""
        return f"{self.prefix}.call.{token(owner)}"

    def fact(self, kind: str, *key: str) -> str:
        return ".".join((self.prefix, "fact", kind, *map(token, key)))

    def key(self, subject: str) -> tuple[str, ...]:
        """The key of a fact from its subject."""
        return tuple(map(part, subject.removeprefix(f"{self.prefix}.fact.").split(".")[1:]))

    def blob(self, session: str, name: str, piece: int) -> str:
        return f"{self.prefix}.blob.{token(session)}.{name}.{piece}"

    def blobs(self, session: str) -> str:
        """The subject of all blobs of a session."""
        return f"{self.prefix}.blob.{token(session)}.>"
