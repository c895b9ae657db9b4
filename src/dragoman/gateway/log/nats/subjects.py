"""What things are called on NATS: parts of a name, each a word without the characters that mean something there."""

import re

_PLAIN = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPED = re.compile(r"=([0-9a-f]{2})")


def token(part: str) -> str:
    """A part of a name as one word of a subject."""
    if _PLAIN.fullmatch(part):
        return part
    return "".join(chr(byte) if _PLAIN.fullmatch(chr(byte)) else f"={byte:02x}" for byte in part.encode()) or "="


def part(token: str) -> str:
    """The part of a name that a word of a subject stands for."""
    if token == "=":
        return ""
    whole = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), token)
    return whole.encode("latin-1").decode()


class Subjects:
    """The subjects of one gateway or several that share everything."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def log(self, session: str) -> str:
        return f"{self.prefix}.log.{token(session)}"

    def tail(self, session: str) -> str:
        """Where the server tells of what it has stored in a log."""
        return f"{self.prefix}.tail.{token(session)}"

    def lease(self, name: str) -> str:
        return f"{self.prefix}.lease.{token(name)}"

    def calls(self, owner: str) -> str:
        """Where requests about the sessions of one owner of leases go."""
        return f"{self.prefix}.call.{token(owner)}"

    def fact(self, kind: str, *key: str) -> str:
        return ".".join((self.prefix, "fact", kind, *map(token, key)))

    def key(self, subject: str) -> tuple[str, ...]:
        """The key of a fact, by its subject."""
        return tuple(map(part, subject.removeprefix(f"{self.prefix}.fact.").split(".")[1:]))

    def blob(self, session: str, name: str, piece: int) -> str:
        return f"{self.prefix}.blob.{token(session)}.{name}.{piece}"

    def blobs(self, session: str) -> str:
        """All that is large of a session."""
        return f"{self.prefix}.blob.{token(session)}.>"
