"""What servers answer, as text for an agent: places as path:line:column, counted from 1, as much as is of use."""

import os
from collections.abc import Iterable, Iterator, Sequence

from ..foundation.documents import Document, Json, document, documents_in, members
from .edits import Reader
from .positions import CountedLines, path_of
from .server import LanguageServer

MOST = 100  # entries of a list
MAX_WORDS = 500  # characters of a message
MAX_HOVER = 8000
SEVERITIES = {1: "error", 2: "warning", 3: "information", 4: "hint"}
_KINDS = (
    *("file", "module", "namespace", "package", "class", "method", "property", "field", "constructor", "enum"),
    *("interface", "function", "variable", "constant", "string", "number", "boolean", "array", "object", "key"),
    *("null", "enum member", "struct", "event", "operator", "type parameter"),
)


def one_line(text: object, most: int = MAX_WORDS) -> str:
    """Words of a server as one line that is not too long."""
    words = " ".join(str(text)[: most * 4].split())
    return words if len(words) <= most else words[:most] + "…"


def shown_path(path: str, workspace: str) -> str:
    """A path as an agent is told of it: relative in the workspace."""
    relative = os.path.relpath(path, workspace)
    return path if relative.startswith("..") else relative


def listed(lines: Sequence[str], what: str) -> str:
    """A list that is not too long, and how much of it was left out."""
    if not lines:
        return f"No {what}."
    left_out = f"\n({len(lines) - MOST} more are not shown.)" if len(lines) > MOST else ""
    return "\n".join(lines[:MOST]) + left_out


def diagnostic_lines(
    server: LanguageServer, path: str, text: str, found: Iterable[Document]
) -> Iterator[tuple[int, str]]:
    """Each diagnostic of a file with its severity, as a line; the worst first."""
    lines = CountedLines(text, server.encoding)
    told = []
    for diagnostic in found:
        start = document(document(diagnostic["range"])["start"])
        severity = diagnostic.get("severity")
        severity = severity if isinstance(severity, int) and severity in SEVERITIES else 1
        line, column = int(start["line"]) + 1, lines.column(start) + 1  # type: ignore[arg-type]
        by = ", ".join(one_line(diagnostic[name], 60) for name in ("source", "code") if diagnostic.get(name))
        words = one_line(diagnostic.get("message", ""))
        place = f"{shown_path(path, server.workspace)}:{line}:{column}"
        told.append((severity, line, f"{place}: {SEVERITIES[severity]}: {words}{f' ({by})' if by else ''}"))
    yield from ((severity, words) for severity, _, words in sorted(told))


async def place_lines(server: LanguageServer, answer: Json, read: Reader) -> list[str]:
    """Locations, each with its line of text; those of one file follow each other."""
    found = documents_in(answer) if isinstance(answer, list) else documents_in([answer])
    texts: dict[str, CountedLines | None] = {}
    told = []
    for location in found[: MOST * 2]:
        range = members(location.get("targetSelectionRange") or location.get("range"))
        path, start = path_of(str(location.get("targetUri") or location.get("uri"))), members(range.get("start"))
        if path is None or "line" not in start:
            continue
        if path not in texts:
            text = await read(path)
            texts[path] = None if text is None else CountedLines(text, server.encoding)
        told.append(_place(path, start, texts[path], server.workspace))
    return list(dict.fromkeys(told))


def _place(path: str, start: Document, lines: CountedLines | None, workspace: str) -> str:
    number = int(start["line"])  # type: ignore[arg-type]
    if lines is None:
        return f"{shown_path(path, workspace)}:{number + 1}"
    return (
        f"{shown_path(path, workspace)}:{number + 1}:{lines.column(start) + 1}: {one_line(lines.line(number), 200)}"
    )


def hover_text(answer: Json) -> str:
    """What is known of a symbol."""
    contents = members(answer).get("contents")
    pieces = contents if isinstance(contents, list) else [contents]
    texts = [piece if isinstance(piece, str) else str(members(piece).get("value") or "") for piece in pieces]
    text = "\n\n".join(text.strip() for text in texts if text.strip())
    return text if len(text) <= MAX_HOVER else f"{text[:MAX_HOVER]}… (cut)"


def symbol_lines(symbols: Iterable[Document], workspace: str, depth: int = 0) -> Iterator[str]:
    """Symbols with their kinds and lines, those inside others indented."""
    for symbol in symbols:
        location = members(symbol.get("location"))
        range = members(symbol.get("selectionRange") or symbol.get("range") or location.get("range"))
        line, kind = members(range.get("start")).get("line"), symbol.get("kind")
        named = _KINDS[kind - 1] if isinstance(kind, int) and 0 < kind <= len(_KINDS) else "symbol"
        path = path_of(str(location["uri"])) if location.get("uri") else None
        number = line + 1 if isinstance(line, int) else 1
        where = f"{shown_path(path, workspace)}:{number}" if path and depth == 0 else f"line {number}"
        within = f" in {one_line(symbol['containerName'], 100)}" if symbol.get("containerName") else ""
        yield f"{'  ' * depth}{named} {one_line(symbol.get('name'), 100)}{within}, {where}"
        if depth < 6:
            yield from symbol_lines(documents_in(symbol.get("children")), workspace, depth + 1)
