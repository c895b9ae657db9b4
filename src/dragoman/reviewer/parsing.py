"""The process that parses: a JSON list of paths and texts on stdin, findings and unreadable files on stdout.

Grammars are native code that reads untrusted files.  A mistake in one ends this process, not the agent.
"""

import sys
from itertools import islice

import msgspec

from ..foundation.unix import resource
from .checks import grammars
from .findings import Finding, Source

LONGEST = 120  # seconds of work after which the process ends itself, in case its owner is gone
MOST_FINDINGS = 200  # findings of one check in one file
MOST_MEMORY = 2 * 1024**3  # bytes


class Parsed(msgspec.Struct, frozen=True):
    """The findings, and the files without an installed grammar."""

    findings: list[Finding]
    unread: list[str]


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    given = msgspec.json.decode(sys.stdin.buffer.read(), type=list[tuple[str, str]])
    sources = [Source(path, text) for path, text in given]
    known = [source for source in sources if grammars.is_known(source)]
    checks = (grammars.syntax, grammars.scripts)
    findings = [found for source in known for check in checks for found in islice(check(source), MOST_FINDINGS)]
    unread = [source.path for source in sources if not grammars.is_known(source)]
    sys.stdout.buffer.write(msgspec.json.encode(Parsed(findings, unread)))


if __name__ == "__main__":
    main()
