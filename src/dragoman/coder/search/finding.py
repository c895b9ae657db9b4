"""Runs a search: starts the process, reads until there are enough findings, and ends it."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence

import msgspec
from msgspec import Struct

from ...errors import Error
from ...foundation.programs import own_command, own_environment
from .messages import MOST_FOUND, FileMatches, Message, SearchCounts, SearchRefused, SearchRequest

PATIENCE = 30.0  # seconds
PORTION = 256 * 1024  # bytes read at once

MayShow = Callable[[Iterable[str]], set[str]]


class UnusableSearch(Error):
    """The search cannot be done; the message is for the model."""


class Found(Struct):
    """The findings that may be shown, and the number of files searched."""

    hits: list[FileMatches]
    counts: SearchCounts
    has_more: bool = False
    timed_out: bool = False
    left: int = MOST_FOUND

    def add(self, more: Iterable[FileMatches]) -> None:
        """Add findings as long as there is room."""
        for hits in more:
            lines = hits.lines[: self.left]
            self.has_more = self.has_more or not self.left or len(lines) < len(hits.lines)
            if self.left:
                self.hits.append(msgspec.structs.replace(hits, lines=lines))
                self.left -= max(1, len(lines))


async def sought(request: SearchRequest, may_show: MayShow) -> Found:
    """Search; `may_show` is called in a thread and returns the files that may be shown.

    Only findings that are shown count towards the limit.
    """
    found = Found([], SearchCounts())
    try:
        async with asyncio.timeout(PATIENCE), contextlib.aclosing(_heard(request)) as heard:
            async for messages in heard:
                for message in messages:
                    if isinstance(message, SearchRefused):
                        raise UnusableSearch(message.why)
                    if isinstance(message, SearchCounts):
                        found.counts = message
                found.add(await asyncio.to_thread(_shown, messages, may_show))
                if found.has_more:
                    break
    except TimeoutError:
        found.timed_out = True
    return found


def _shown(messages: Sequence[Message], may_show: MayShow) -> list[FileMatches]:
    hits = [message for message in messages if isinstance(message, FileMatches)]
    allowed = may_show([each.path for each in hits]) if hits else set()
    return [each for each in hits if each.path in allowed]


async def _heard(request: SearchRequest) -> AsyncGenerator[list[Message]]:
    """The messages of the process as they arrive; closing the generator kills the process."""
    process = await asyncio.create_subprocess_exec(
        *own_command("dragoman.coder.search.process"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=own_environment(),
    )
    assert process.stdin and process.stdout
    try:
        process.stdin.write(msgspec.json.encode(request))
        process.stdin.close()
        is_done, rest = False, b""
        while data := await process.stdout.read(PORTION):
            *lines, rest = (rest + data).split(b"\n")
            messages = [msgspec.json.decode(line, type=Message) for line in lines]
            is_done = any(
                isinstance(each, SearchRefused) or (isinstance(each, SearchCounts) and each.done)
                for each in messages
            )
            yield messages
        await process.wait()  # it has closed its end and is ending by itself
        if not is_done:
            raise UnusableSearch("The search broke off; search a smaller part.")
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
