"""Tools that read and change files."""

import base64
import mimetypes
import os
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from ... import schema as s
from ..context.history import Media, Part, TextPart
from ..files.edits import NoMatch, replaced
from ..files.lines import lines_of
from ..files.project_files import digest
from ..workplace import Workplace
from .tool import MAX_LETTERS, Failed, Tool, Work

MAX_LINES = 2000
MAX_LINE = 2000  # characters of one line
MAX_MEDIA = 5 * 1024 * 1024

Path = Annotated[str, Meta(description="The file, absolute or relative to the working directory.")]


class ReadFile(Tool):
    """Read a file: numbered lines of a text file, or a picture. Long files come in parts; offset gets the next."""

    name = "read_file"
    kind = "read"
    parallel = True

    path: Path
    offset: Annotated[int, Meta(ge=1, description="The first line to read, counted from 1.")] = 1
    limit: Annotated[int, Meta(ge=1, description="How many lines to read at most.")] = MAX_LINES

    def title(self, place: Workplace) -> str:
        """Name the file and the lines."""
        lines = "" if self.offset == 1 else f" (from line {self.offset})"
        return f"Read {place.shown(place.session.path(self.path))}{lines}"

    def locations(self, place: Workplace) -> Sequence[s.ToolCallLocation]:
        """The file and the first line that is read."""
        return [s.ToolCallLocation(path=place.session.path(self.path), line=self.offset)]

    async def run(self, work: Work) -> Sequence[Part]:
        """Return the numbered lines of a text, or an image the model can see."""
        path = work.place.session.path(self.path)
        if media := _media_type(path):
            return await self._picture(work, path, media)
        text = await work.place.read(work.turn, work.call, path)
        return [TextPart(_numbered(text, self.offset, self.limit))]

    async def _picture(self, work: Work, path: str, media: str) -> Sequence[Part]:
        kind = "document" if media == "application/pdf" else media.partition("/")[0]
        if kind not in work.takes:
            raise Failed(f"This model reads no files of type {media}.")
        data = await work.place.bytes_of(work.turn, work.call, path)
        if len(data) > MAX_MEDIA:
            raise Failed(f"The file has more than {MAX_MEDIA // 2**20} MiB.")
        return [TextPart(f"{self.path}:"), Media(media, base64.b64encode(data).decode(), os.path.basename(path))]


def _media_type(path: str) -> str | None:
    media = mimetypes.guess_type(path)[0] or ""
    is_media = media.startswith(("image/", "audio/")) or media == "application/pdf"
    return media if is_media and media != "image/svg+xml" else None


def _numbered(text: str, offset: int, limit: int) -> str:
    """Lines with their numbers, as many as fit, and a note on the rest."""
    lines = lines_of(text)
    if not lines:
        return "(The file is empty.)"
    if offset > len(lines):
        raise Failed(f"The file has only {len(lines)} lines.")
    shown: list[str] = []
    letters = 0
    for number, line in enumerate(lines[offset - 1 : offset - 1 + limit], offset):
        cut = line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}… ({len(line)} characters)"
        letters += len(cut) + 8
        if letters > MAX_LETTERS:
            break
        shown.append(f"{number:>6}\t{cut}")
    after = offset + len(shown)
    more = f"\n({len(lines) - after + 1} more lines; go on with offset {after}.)" if after <= len(lines) else ""
    return "\n".join(shown) + more


async def as_read(work: Work, path: str) -> str:
    """The text of a file that the model has read, if the file is unchanged since."""
    place = work.place
    if path not in place.seen:
        raise Failed(f"Read {place.shown(path)} before you edit it.")
    text = await place.text(work.turn, path)
    if text is None:
        raise Failed(f"There is no file {place.shown(path)}; write_file makes one.")
    if digest(text) != place.seen[path]:
        raise Failed(f"{place.shown(path)} has changed since you read it; read it again.")
    return text


class EditFile(Tool):
    """Replace text in a file that you have read. `old` must occur exactly once, with its whitespace, unless
    replace_all is set; give enough lines around it to make it unique."""

    name = "edit_file"
    kind = "edit"

    path: Path
    old: Annotated[str, Meta(description="The text to replace, exactly as it is in the file.")]
    new: Annotated[str, Meta(description="What to put in its place.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence.")] = False

    def title(self, place: Workplace) -> str:
        """Name the file."""
        return f"Edit {place.shown(place.session.path(self.path))}"

    def locations(self, place: Workplace) -> Sequence[s.ToolCallLocation]:
        """The file that is edited."""
        return [s.ToolCallLocation(path=place.session.path(self.path))]

    async def run(self, work: Work) -> Sequence[Part]:
        """Replace the text after the user agreed; fails unless it occurs as expected."""
        place, path = work.place, work.place.session.path(self.path)
        before = await as_read(work, path)
        try:
            edit = replaced(before, self.old, self.new, everywhere=self.replace_all)
        except NoMatch as exc:
            raise Failed(f"{exc} Nothing was changed in {place.shown(path)}.") from exc
        await work.call.update(locations=[s.ToolCallLocation(path=path, line=edit.lines[0])])
        await place.write(work.turn, work.call, path, before, edit.text)
        where = ", ".join(map(str, edit.lines))
        return [
            TextPart(f"Edited {place.shown(path)} at line {where}.{' ' + edit.warning if edit.warning else ''}")
        ]


class WriteFile(Tool):
    """Make a file, or replace one that you have read. Prefer edit_file for changes."""

    name = "write_file"
    kind = "edit"

    path: Path
    content: Annotated[str, Meta(description="All that will be in the file.")]

    def title(self, place: Workplace) -> str:
        """Name the file."""
        return f"Write {place.shown(place.session.path(self.path))}"

    def locations(self, place: Workplace) -> Sequence[s.ToolCallLocation]:
        """The file that is written."""
        return [s.ToolCallLocation(path=place.session.path(self.path), line=1)]

    async def run(self, work: Work) -> Sequence[Part]:
        """Write the whole file after the user agreed."""
        place, path = work.place, work.place.session.path(self.path)
        before = await place.text(work.turn, path)
        if before and place.seen.get(path) != digest(before):  # an empty file can lose nothing
            raise Failed(f"{place.shown(path)} exists and you have not read it as it is now; read it first.")
        await place.write(work.turn, work.call, path, before, self.content)
        return [TextPart(f"{'Made' if before is None else 'Replaced'} {place.shown(path)}.")]
