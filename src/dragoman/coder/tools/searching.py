"""Tools that find files and text in them.

A process of its own (`search`) walks and matches, so that a pattern that takes for ever can be ended.  Only
findings in files that may be read without a question are shown.
"""

import asyncio
import os
from collections.abc import Iterable, Sequence
from typing import Annotated

from msgspec import Meta

from ... import schema as s
from ...host.display import visible
from ...host.permissions.hard_links import HardLinks
from ..context.history import Part
from ..search.finding import PATIENCE, Found, UnusableSearch, sought
from ..search.lines import MAX_FILE
from ..search.messages import MOST_FOUND, FileList, SearchCounts, SearchRequest
from ..workplace import Workplace
from .tool import Failed, Tool, Work, said

MAX_PATH = 4096  # letters
MOST_PLACES = 20  # findings that an editor is shown


class ListFiles(Tool):
    """List files of the project, leaving out what is ignored by version control: all below a directory, or those
    whose path fits a pattern such as **/*.py."""

    name = "list_files"
    kind = "search"
    parallel = True

    path: Annotated[str, Meta(description="The directory to look in.")] = "."
    pattern: Annotated[str, Meta(description="A glob for paths below it; ** is any number of directories.")] = ""

    def title(self, place: Workplace) -> str:
        """Name the directory or pattern."""
        where = place.shown(place.session.path(self.path))
        return f"Find {self.pattern} in {where}" if self.pattern else f"List {where}"

    def locations(self, place: Workplace) -> Sequence[s.ToolCallLocation]:
        """The directory that is listed."""
        return [s.ToolCallLocation(path=place.session.path(self.path))]

    async def run(self, work: Work) -> Sequence[Part]:
        """Return the paths that match, without those that version control ignores."""
        search = _Sought(work, self.path)
        found = await search.found(self.pattern)
        shown = [search.shown(hits.path) for hits in found.hits]
        return said(work.place, await search.told(shown, found, self.pattern), work.call.id)


class Search(Tool):
    """Search the lines of the project's files for a regular expression (Python's syntax), leaving out what is
    ignored by version control. Gives path:line: text."""

    name = "search"
    kind = "search"
    parallel = True

    pattern: Annotated[str, Meta(min_length=1)]
    path: Annotated[str, Meta(description="The directory or file to search.")] = "."
    include: Annotated[str, Meta(description="Only files whose path fits this glob, such as **/*.{ts,tsx}.")] = ""
    ignore_case: bool = False

    def title(self, place: Workplace) -> str:
        """Quote the pattern."""
        where = place.shown(place.session.path(self.path))
        return f"Search {self.pattern!r}" + ("" if where == "." else f" in {where}")

    async def run(self, work: Work) -> Sequence[Part]:
        """Return the lines that match, with their files and numbers."""
        search = _Sought(work, self.path)
        found = await search.found(self.include, self.pattern, self.ignore_case)
        shown = []
        places = []
        for hits in found.hits:
            path = search.named(hits.path)
            shown += [f"{search.shown(hits.path)}:{line}: {text}" for line, text in hits.lines]
            shown += [f"{search.shown(hits.path)}: it matches, and is no text"] if hits.is_binary else []
            places += [s.ToolCallLocation(path=path, line=line) for line, _ in hits.lines[:MOST_PLACES]]
        if places:
            await work.call.update(locations=places[:MOST_PLACES])
        return said(work.place, await search.told(shown, found, self.include), work.call.id)


class _Sought:
    """A search below a path: its links are followed, and findings are shown as the model named it."""

    def __init__(self, work: Work, path: str) -> None:
        self._work = work
        self._named = work.place.session.path(path)
        self._real = os.path.realpath(self._named)
        if not os.path.exists(self._real):
            raise Failed(f"There is nothing at {path}.")
        if not work.place.permissions.is_inside(self._real):
            raise Failed(f"{path} lies outside the session's directories and cannot be searched.")

    async def found(self, glob: str, pattern: str = "", ignore_case: bool = False) -> Found:
        request = SearchRequest(
            self._real, os.path.realpath(self._work.place.session.cwd), glob, pattern, ignore_case
        )
        hard_links = HardLinks(self._work.place.permissions.roots)
        async with self._work.place.searches:
            try:
                found = await sought(request, lambda paths: self._may_show(paths, hard_links))
            except UnusableSearch as exc:
                raise Failed(str(exc)) from exc
        if found.timed_out and not found.hits:
            raise Failed(
                f"{_ended(found)} Nothing was found until then; search a smaller part, or a simpler pattern."
            )
        return found

    def named(self, path: str) -> str:
        """A path that was found, as the model would name it."""
        return self._named.rstrip("/") + path[len(self._real.rstrip("/")) :]

    def shown(self, path: str) -> str:
        """A path in one line; a line break in a name would make the rest look like another line."""
        return visible(self._work.place.shown(self.named(path)), limit=MAX_PATH)

    def _may_show(self, paths: Iterable[str], hard_links: HardLinks) -> set[str]:
        names = {self.named(path): path for path in paths}
        return {names[name] for name in self._work.place.permissions.may_show(names, hard_links)}

    async def told(self, shown: Sequence[str], found: Found, glob: str) -> str:
        """The findings and the unsearched files as a text."""
        lines = [*shown] or [_nothing(found.counts, glob)]
        if found.has_more:
            lines.append(f"(The first {MOST_FOUND}; there are more. Narrow it down.)")
        if found.timed_out:
            lines.append(f"({_ended(found)} Search a smaller part for the rest.)")
        counts = found.counts
        if counts.cut.count:
            names = await asyncio.to_thread(self._names, counts.cut)
            lines.append(f"(Only the first {MAX_FILE // 2**20} MiB were searched of {names}.)")
        if counts.unreadable.count:
            lines.append(f"(Not readable: {await asyncio.to_thread(self._names, counts.unreadable)}.)")
        if counts.nameless:
            lines.append(f"(Not searched, as their names are not text: {counts.nameless:,}.)")
        return "\n".join(lines)

    def _names(self, names: FileList) -> str:
        """The names of those files that may be shown."""
        allowed = self._may_show(names.first, HardLinks(self._work.place.permissions.roots))
        first = [self.shown(path) for path in names.first if path in allowed]
        count = f"{names.count} file{'s' if names.count > 1 else ''}"
        return f"{count}: {', '.join(first)}{', …' if len(first) < names.count else ''}" if first else count


def _nothing(counts: SearchCounts, glob: str) -> str:
    """A sentence that nothing was found, and what was searched."""
    if not counts.files and counts.others:
        return f"No file fits {glob}; there are {counts.others:,} others."
    files = "the only file" if counts.files == 1 else f"the {counts.files:,} files"
    said = f"Nothing found in {files} there; protected ones are not looked at."
    if counts.ignored:
        said += (
            f" Ignored by version control: {counts.ignored:,} of the files and directories; to look there, name it."
        )
    return said  # it does not reveal whether protected files would fit


def _ended(found: Found) -> str:
    return f"The search was ended after {PATIENCE:.0f} s and {found.counts.files:,} files."
