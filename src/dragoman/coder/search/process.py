"""The process that searches: a `SearchRequest` on stdin, `Message`s on stdout, one a line."""

import signal
import sys
import time
from collections.abc import Iterator

import msgspec

from .lines import Matcher, Unsearchable
from .messages import Hits, Looked, Message, SearchRefused, SearchRequest
from .walking import files, fitting

LONGEST = 60  # seconds after which the process ends itself, should nobody be left to end it
EVERY = 0.5  # seconds after which it says how far it is


def found(order: SearchRequest) -> Iterator[Message]:
    """What fits an order, file by file, and at the end what was looked at."""
    looked = Looked()
    try:
        matcher = Matcher(order.pattern, ignore_case=order.ignore_case) if order.pattern else None
    except Unsearchable as exc:
        yield SearchRefused(str(exc))
        return
    # A file that is named is searched, whatever its name fits.
    fits = fitting(order.glob, order.root, order.top) if order.glob else None
    told = time.monotonic()
    for path in files(order.root, order.top, looked):
        if fits and path != order.root and not fits(path):
            looked.others += 1
        elif matcher is None:
            looked.files += 1
            yield Hits(path)
        elif hits := matcher.hits(path, looked):
            yield hits
        if time.monotonic() - told > EVERY:
            told = time.monotonic()
            yield looked
    looked.done = True
    yield looked


def main() -> None:
    signal.alarm(LONGEST)
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=SearchRequest)
    for message in found(order):
        sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
