"""JSON and TOML: syntax errors and repeated keys."""

import json
import re
import tomllib
from collections.abc import Iterator
from typing import NoReturn

from ..findings import Finding, Source
from .leftovers import TextLines, has_merge_markers

# Files that may have comments though their names suggest otherwise.
_WITH_COMMENTS = re.compile(
    r"(?:^|/)(?:[tj]sconfig[^/]*\.json|\.eslintrc(?:\.json)?|\.babelrc|devcontainer\.json|\.jshintrc"
    r"|\.vscode/[^/]*\.json|\.zed/[^/]*\.json|[^/]*\.code-workspace|deno\.json|turbo\.json|api-extractor\.json)$"
)
# An unclosed string ends with its line, so that no text is scanned twice.
_STRING = r'"(?:[^"\\\n]|\\.)*+"?'
_TOKEN = re.compile(rf'{_STRING}|[{{}}\[\],:]|[^\s{{}}\[\],:"]++')
_TRAILING = re.compile(rf"({_STRING})|,(?=\s*+[}}\]])")
_ENDLESS_KEY = re.compile(r"^[^=\n\"'#]{2000}", re.MULTILINE)  # the parser would take very long to read it
_TOML_PLACE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def is_json(path: str) -> bool:
    return path.endswith(".json") and not _WITH_COMMENTS.search(path)


def json_syntax(source: Source) -> Iterator[Finding]:
    text = source.text
    if not is_json(source.path) or not text.strip() or has_merge_markers(text):
        return
    try:
        json.loads(text.removeprefix("\ufeff"), parse_constant=_refuse)
    except json.JSONDecodeError as exc:
        mended = _without_trailing_commas(text)
        if mended != text and _is_valid(mended):
            yield from _trailing_commas(source)
        else:
            yield _json(
                source, exc.lineno, f"not valid JSON: {_said(exc.msg)}", "nothing can read it until it is corrected"
            )
    except ValueError as exc:
        found = re.search(rf"{re.escape(str(exc))}\b", text)
        line = TextLines(text).at(found.start()) if found else 1
        yield _json(source, line, f"not valid JSON: {exc} is no JSON value", "write null, or a number")
    except RecursionError:
        yield _json(source, 1, "nested too deeply to be read", "flatten it")
    if text.startswith("\ufeff"):
        yield Finding(
            source.path,
            1,
            "warning",
            "byte-order-mark",
            "the file begins with a byte order mark, which JSON does not allow",
            "take it out",
            is_fixable=True,
        )


def _json(source: Source, line: int, message: str, advice: str) -> Finding:
    return Finding(source.path, line, "error", "json-syntax", message, advice, is_whole=True)


def _trailing_commas(source: Source) -> Iterator[Finding]:
    lines = TextLines(source.text)
    for offset in trailing_commas(source.text):
        yield Finding(
            source.path,
            lines.at(offset),
            "error",
            "json-trailing-comma",
            "not valid JSON: a comma with nothing behind it",
            "delete the comma",
            is_fixable=True,
            is_whole=True,
        )


def trailing_commas(text: str) -> Iterator[int]:
    """The positions of trailing commas."""
    return (found.start() for found in _TRAILING.finditer(text) if found[1] is None)


def _without_trailing_commas(text: str) -> str:
    return _TRAILING.sub(lambda found: found[1] or "", text)


def _is_valid(text: str) -> bool:
    try:
        json.loads(text.removeprefix("\ufeff"), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _said(message: str) -> str:
    return message[:1].lower() + message[1:]


def json_duplicates(source: Source) -> Iterator[Finding]:
    """Repeated keys of an object: each reader keeps one of them, but not all keep the same one."""
    if not is_json(source.path):
        return
    objects: list[set[str] | None] = []  # the keys of each open object; None for an array
    last = ""
    offset = 0
    lines = TextLines(source.text)
    for token in _TOKEN.finditer(source.text):
        word = token[0]
        if word in "{[":
            objects.append(set() if word == "{" else None)
        elif word in "}]" and objects:
            objects.pop()
        elif word == ":" and objects and (keys := objects[-1]) is not None and last.startswith('"'):
            if last in keys:
                yield Finding(
                    source.path,
                    lines.at(offset),
                    "warning",
                    "json-duplicate-key",
                    f"the key {last} is given twice; which one counts depends on the reader",
                    "keep one of them",
                )
            keys.add(last)
        last, offset = word, token.start()


def toml_syntax(source: Source) -> Iterator[Finding]:
    if not source.path.endswith(".toml") or has_merge_markers(source.text) or _ENDLESS_KEY.search(source.text):
        return
    try:
        tomllib.loads(source.text)
    except tomllib.TOMLDecodeError as exc:
        found = _TOML_PLACE.search(str(exc))
        line = int(found[1]) if found and found[1] else source.text.count("\n") + 1
        message = _said(str(exc)[: found.start()] if found else str(exc))
        is_again = message.startswith(("cannot overwrite", "cannot declare"))
        yield Finding(
            source.path,
            line,
            "error",
            "toml-duplicate-key" if is_again else "toml-syntax",
            f"not valid TOML: {message}",
            "give each key and each table once" if is_again else "nothing can read it until it is corrected",
            is_whole=True,
        )
    except RecursionError:
        yield Finding(
            source.path, 1, "error", "toml-syntax", "nested too deeply to be read", "flatten it", is_whole=True
        )
