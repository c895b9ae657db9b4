"""The work that every contender does, in the same words: what is streamed, what is read, what a prompt asks for.

A prompt is one of two orders to the agent, and each contender's agent obeys them in its own way:

    say COUNT               stream COUNT chunks of text, then end the turn
    read PATH COUNT SIZE    read a file through the client COUNT times; each has to be SIZE characters long
"""

from functools import cache

CHUNK = "a few words at a time"
SMALL, LARGE = "/small.txt", "/large.py"
MEBIBYTE = 1024 * 1024

_LINE = '    return {"index": %6d, "words": ["an ordinary", "line of code"]}  # quotes, brackets and all\n'


@cache
def document(path: str) -> str:
    """What the client's editor has open under a path, as it would be in memory."""
    if path == SMALL:
        return "Hello.\n"
    lines = "".join(_LINE % index for index in range(MEBIBYTE // len(_LINE % 0) + 1))
    return lines[:MEBIBYTE]


def say(count: int) -> str:
    return f"say {count}"


def read(path: str, count: int) -> str:
    return f"read {path} {count} {len(document(path))}"


def must_be(size: str, content: str) -> None:
    """Refuse a file that did not arrive whole."""
    if len(content) != int(size):
        raise ValueError(f"{len(content)} characters arrived, not {size}")
