"""The process that searches: a `SearchRequest` on stdin, `Message`s on stdout, one a line."""

import signal
import sys
import time
from collections.abc import Iterator

import msgspec

from ...host.trees.walking import files, fitting
from .lines import Matcher, Unsearchable
from .messages import FileMatches, Message, SearchCounts, SearchRefused, SearchRequest

LONGEST = 60  # seconds after which the process ends itself, in case its parent is gone
EVERY = 0.5  # seconds between reports of its progress


def found(request: SearchRequest) -> Iterator[Message]:
    """The matches of a request, file by file, and at the end the counts of searched files."""
    counts = SearchCounts()
    try:
        matcher = Matcher(request.pattern, ignore_case=request.ignore_case) if request.pattern else None
    except Unsearchable as exc:
        yield SearchRefused(str(exc))
        return
    # A file that is named itself is searched even if the glob does not fit it.
    fits = fitting(request.glob, request.root, request.top) if request.glob else None
    told = time.monotonic()
    for path in files(request.root, request.top, counts):
        if fits and path != request.root and not fits(path):
            counts.others += 1
        elif matcher is None:
            counts.files += 1
            yield FileMatches(path)
        elif hits := matcher.hits(path, counts):
            yield hits
        if time.monotonic() - told > EVERY:
            told = time.monotonic()
            yield counts
    counts.done = True
    yield counts


def main() -> None:
    signal.alarm(LONGEST)
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=SearchRequest)
    for message in found(request):
        sys.stdout.buffer.write(msgspec.json.encode(message) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
