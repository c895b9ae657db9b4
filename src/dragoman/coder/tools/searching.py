"""Finding files and text in them.

The walk and the matching happen in a process of their own (`seeker`), so that a pattern that takes for ever can be
ended; what comes back is shown only as far as it may be read without a question.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from ... import schema as s
from ..history import Part
from ..seeker import MOST_FOUND, Order
from ..workplace import Workplace
from .tool import Failed, Tool, Work, said

PATIENCE = 30.0  # seconds


class ListFiles(Tool):
    """List files of the project, leaving out what is ignored by version control: all below a directory, or those
    whose path fits a pattern such as **/*.py."""

    name = "list_files"
    kind = "search"
    parallel = True

    path: Annotated[str, Meta(description="The directory to look in.")] = "."
    pattern: Annotated[str, Meta(description="A glob for paths below it; ** is any number of directories.")] = ""

    def title(self, place: Workplace) -> str:
        where = place.shown(place.session.path(self.path))
        return f"Find {self.pattern} in {where}" if self.pattern else f"List {where}"

    def locations(self, place: Workplace) -> Sequence[s.ToolCallLocation]:
        return [s.ToolCallLocation(path=place.session.path(self.path))]

    async def run(self, work: Work) -> Sequence[Part]:
        root = _directory(work, self.path)
        found = [path for path, *_ in await _seek(Order(root, self.pattern))]
        shown = [work.place.shown(path) for path in found if work.place.gate.may_show(path)]
        return said(work.place, _told(shown, len(found)), work.call.id)


class Search(Tool):
    """Search the text of the project's files for a regular expression (Python's syntax). Gives path:line: text."""

    name = "search"
    kind = "search"
    parallel = True

    pattern: Annotated[str, Meta(min_length=1)]
    path: Annotated[str, Meta(description="The directory or file to search.")] = "."
    include: Annotated[str, Meta(description="Only files whose path fits this glob, such as **/*.py.")] = ""
    ignore_case: bool = False

    def title(self, place: Workplace) -> str:
        where = place.shown(place.session.path(self.path))
        return f"Search {self.pattern!r}" + ("" if where == "." else f" in {where}")

    async def run(self, work: Work) -> Sequence[Part]:
        root = _directory(work, self.path)
        found = await _seek(Order(root, self.include, self.pattern, self.ignore_case))
        allowed = {path: work.place.gate.may_show(path) for path in {path for path, *_ in found}}
        shown = [f"{work.place.shown(path)}:{line}: {text}" for path, line, text in found if allowed[path]]
        places = [s.ToolCallLocation(path=path, line=line) for path, line, _ in found if allowed[path]]
        if places:
            await work.call.update(locations=places[:20])
        return said(work.place, _told(shown, len(found)), work.call.id)


def _directory(work: Work, path: str) -> str:
    root = work.place.session.path(path)
    if not os.path.exists(root):
        raise Failed(f"There is nothing at {path}.")
    if not work.place.gate.is_inside(root):
        raise Failed(f"{path} lies outside the session's directories and cannot be searched.")
    return root


def _told(shown: Sequence[str], found: int) -> str:
    if not shown:
        return "Nothing found."
    more = f"\n(The first {MOST_FOUND}; there are more. Narrow it down.)" if found >= MOST_FOUND else ""
    return "\n".join(shown) + more


async def _seek(order: Order) -> list[Any]:
    """What a seeker finds; it is killed when it takes too long or nobody waits any more."""
    program = [sys.executable, "-P", "-m", "dragoman.coder.seeker"]
    process = await asyncio.create_subprocess_exec(
        *program, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(PATIENCE):
            answer, _ = await process.communicate(msgspec.json.encode(order))
    except TimeoutError:
        raise Failed(
            f"The search took longer than {PATIENCE:.0f} s; search a smaller part, or a simpler pattern."
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    found = msgspec.json.decode(answer or b'"The search failed."')
    if isinstance(found, str):
        raise Failed(found)
    return list(found)
