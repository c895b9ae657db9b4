"""Patches as some models write them: between `*** Begin Patch` and `*** End Patch`, lines found by content.

*** Update File: PATH        then pieces: `@@ LINE`, after which the piece is searched; lines with blank, - or +
*** Add File: PATH           then lines that begin with +
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from .edits import NoMatch
from .lines import lines_of, lines_with_ends

BEGIN, END, END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
UPDATE, ADD = "*** Update File: ", "*** Add File: "


class PatchHunk(Struct, frozen=True):
    """Lines that stay (" "), are removed ("-") or added ("+"), after a named line or anywhere."""

    behind: str
    lines: Sequence[tuple[str, str]]

    @property
    def old(self) -> list[str]:
        return [line for mark, line in self.lines if mark != "+"]

    @property
    def changes(self) -> bool:
        return any(mark != " " for mark, _ in self.lines)


class FilePatch(Struct, frozen=True):
    """The change of one file; a new file has a text and no pieces."""

    path: str
    pieces: Sequence[PatchHunk] = ()
    made: str | None = None


class BadPatch(NoMatch):
    """The patch is malformed; the message is for the model."""


def read_patch(text: str) -> list[FilePatch]:
    """The files of a patch; raises BadPatch."""
    lines = lines_of(text.strip())
    if not lines or lines[0].strip() != BEGIN or lines[-1].strip() != END:
        raise BadPatch(f"A patch is written between '{BEGIN}' and '{END}'.")
    patches = [_file_patch(head, body) for head, body in _sections(lines[1:-1])]
    if not patches:
        raise BadPatch("The patch is empty.")
    if len({patch.path for patch in patches}) < len(patches):
        raise BadPatch("A file may occur only once in a patch.")
    return patches


def _sections(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    head, body = "", list[str]()
    for line in lines:
        if line.startswith("*** ") and line.strip() != END_OF_FILE:
            if head:
                yield head, body
            head, body = line, []
        elif head:
            body.append(line)
        elif line.strip():
            raise BadPatch(f"'{line[:80]}' belongs to no file.")
    if head:
        yield head, body


def _file_patch(head: str, body: Sequence[str]) -> FilePatch:
    if head.startswith(ADD):
        if wrong := next((line for line in body if not line.startswith("+")), None):
            raise BadPatch(f"Every line of a new file begins with +; '{wrong[:80]}' does not.")
        return FilePatch(head.removeprefix(ADD).strip(), made="".join(f"{line[1:]}\n" for line in body))
    if head.startswith(UPDATE):
        pieces = list(_pieces(body))
        if not pieces:
            raise BadPatch(f"'{head}' changes nothing.")
        return FilePatch(head.removeprefix(UPDATE).strip(), pieces)
    raise BadPatch(f"'{head[:80]}' cannot be done by a patch; to move or delete a file, run a command.")


def _pieces(body: Sequence[str]) -> Iterator[PatchHunk]:
    piece = PatchHunk("", [])
    for line in [*body, "@@"]:
        if line.startswith("@@"):
            if piece.changes:
                yield piece
            piece = PatchHunk(line.removeprefix("@@").strip(), [])
        elif line.strip() == END_OF_FILE:
            continue
        elif line[:1] in ("", " ", "-", "+"):
            piece = PatchHunk(piece.behind, [*piece.lines, (line[:1] or " ", line[1:])])
        else:
            raise BadPatch(f"'{line[:80]}' begins with none of blank, -, + and @@.")


def patched(text: str, patch: FilePatch) -> str:
    """The patched text; raises NoMatch.  All other bytes stay unchanged."""
    lines, at = lines_with_ends(text), 0
    usual = "\r\n" if "\r\n" in text else "\n"
    for piece in patch.pieces:
        if piece.behind:
            at = _named(lines, piece.behind, at) + 1
        old = piece.old
        start = _place(lines, old, at, is_clear=bool(piece.behind)) if old else at or len(lines)
        put = list(_put(piece, lines[start : start + len(old)], usual))
        lines[start : start + len(old)] = put
        at = start + len(put)
    has_end = not text or text.endswith("\n")
    return _joined(lines, usual, has_end=has_end)


def _put(piece: PatchHunk, there: Sequence[str], usual: str) -> Iterator[str]:
    """The lines after a piece: unchanged ones are taken from the file, not from the patch."""
    old = iter(there)
    for mark, line in piece.lines:
        if mark == "+":
            yield f"{line}{usual}"
        else:
            own = next(old)
            if mark == " ":
                yield own


def _joined(lines: Sequence[str], usual: str, *, has_end: bool) -> str:
    """The text of these lines, each with its line ending, except perhaps the last."""
    whole = "".join(line if line.endswith("\n") else f"{line}{usual}" for line in lines)
    return whole if has_end else whole.removesuffix("\n").removesuffix("\r")


def _named(lines: Sequence[str], line: str, start: int) -> int:
    for number in range(start, len(lines)):
        if lines[number].strip() == line:
            return number
    raise NoMatch(f"No line says '{line[:80]}'.")


def _place(lines: Sequence[str], wanted: Sequence[str], start: int, *, is_clear: bool) -> int:
    """The first place of some lines from a line on, ignoring blanks at their ends; raises NoMatch if unclear."""
    there, sought = [line.rstrip() for line in lines], [line.rstrip() for line in wanted]
    places = [i for i in range(start, len(lines) - len(sought) + 1) if there[i : i + len(sought)] == sought]
    first = f"'{wanted[0][:80]}' …"
    if not places:
        raise NoMatch(f"{first} is not in the file.")
    if len(places) > 1 and not is_clear:
        numbers = ", ".join(str(place + 1) for place in places[:10])
        raise NoMatch(f"{first} is found at lines {numbers}; put '@@' and a line above it before.")
    return places[0]
