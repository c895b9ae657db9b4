"""Several edits as a patch, in the format that some models were trained on."""

import contextlib
import os
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from ... import schema as s
from ...errors import RpcError
from ..context.history import Part, TextPart
from ..files.edits import NoMatch
from ..files.patches import BadPatch, FilePatch, patched, read_patch
from ..files.project_files import UnreadableFile
from ..permissions import Denied
from ..workplace import Workplace
from .files import as_read
from .tool import Failed, Tool, Work


class ApplyPatch(Tool):
    """Edit files that you have read, and make new ones, with a patch: '*** Begin Patch', for each file '*** Update
    File: PATH' or '*** Add File: PATH', '*** End Patch'. In an update, '@@ LINE' names a line to look behind, and
    every other line begins with a blank, - or +. When a part of it does not fit, nothing is changed."""

    name = "apply_patch"
    kind = "edit"

    patch: Annotated[str, Meta(min_length=1, description="The patch.")]

    def title(self, place: Workplace) -> str:
        """Name the files of the patch."""
        names = [place.shown(path) for path in self._paths(place)]
        return f"Patch {', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}".rstrip()

    def locations(self, place: Workplace) -> Sequence[s.ToolCallLocation]:
        """The files that the patch changes."""
        return [s.ToolCallLocation(path=path) for path in self._paths(place)]

    def _paths(self, place: Workplace) -> list[str]:
        with contextlib.suppress(BadPatch):
            return [place.session.path(patch.path) for patch in read_patch(self.patch)]
        return []

    async def run(self, work: Work) -> Sequence[Part]:
        """Apply the whole patch after the user agreed, or none of it."""
        place = work.place
        try:
            patches = read_patch(self.patch)
            _must_be_different([place.session.path(patch.path) for patch in patches])
            changes = [await _change(work, patch) for patch in patches]
        except NoMatch as exc:
            raise Failed(f"{exc} Nothing was changed.") from exc
        done: list[str] = []
        for path, before, after in changes:
            try:
                await place.write(work.turn, work.call, path, before, after)
            except (Denied, UnreadableFile, RpcError) as exc:
                kind = Denied if isinstance(exc, Denied) else Failed
                raise kind(f"{exc} Patched before: {', '.join(done) or 'nothing'}.") from exc
            done.append(place.shown(path))
        return [TextPart(f"Patched {', '.join(done)}.")]


def _must_be_different(paths: Sequence[str]) -> None:
    """Raise BadPatch if two paths lead to one file, because the second would start from the first one's text."""
    files: dict[object, str] = {}
    for path in paths:
        try:
            status = os.stat(path)
            key: object = (status.st_dev, status.st_ino)
        except OSError:
            key = os.path.realpath(path)
        if key in files:
            raise BadPatch(f"{files[key]} and {path} are one file, which may occur only once in a patch.")
        files[key] = path


async def _change(work: Work, patch: FilePatch) -> tuple[str, str | None, str]:
    """A file before and after its part of the patch."""
    path = work.place.session.path(patch.path)
    if patch.made is None:
        before = await as_read(work, path)
        try:
            return path, before, patched(before, patch)
        except NoMatch as exc:
            raise NoMatch(f"In {patch.path}: {exc}") from exc
    if await work.place.text(work.turn, path) is not None:
        raise Failed(f"{patch.path} is there already; update it. Nothing was changed.")
    return path, None, patch.made
