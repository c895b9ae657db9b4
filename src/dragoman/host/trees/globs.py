"""Globs as regular expressions, read as Git reads them in a .gitignore.

`*` and `?` stay within a name, `**` is any number of directories, `[a-z]` is one character.  Everything before the
last star of a name, and before the last `**` of a path, is matched only once, so no glob takes long.
"""

import re
from collections.abc import Iterator

_CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "\\x21-\\x7e",
    "lower": "a-z",
    "print": "\\x20-\\x7e",
    "punct": "\\x21-\\x2f\\x3a-\\x40\\x5b-\\x60\\x7b-\\x7e",
    "space": " \\t\\n\\r\\x0b\\x0c",
    "upper": "A-Z",
    "xdigit": "a-fA-F0-9",
}
_NEVER = "(?!)"


def expression(glob: str) -> str:
    """The regular expression of a glob for whole paths, without a slash at either end."""
    runs: list[list[str]] = [[]]  # names between any number of directories
    for part in _parts(glob):
        if part != "**":
            runs[-1].append(_name(part))
        elif len(runs) == 1 or runs[-1]:  # two in a row are one
            runs.append([])
    first, *others = ["/".join(run) for run in runs]
    if not others:
        return first
    *between, last = others
    before = f"{first}/" if first else ""
    found = "".join(f"(?>(?:[^/]+/)*?{run}/)" for run in between)
    return before + found + (f"(?:[^/]+/)*{last}" if last else ".+")


def _parts(glob: str) -> Iterator[str]:
    """The names of a path; a slash in brackets is not a separator."""
    start = at = 0
    while at < len(glob):
        if glob[at] == "/":
            yield glob[start:at]
            start = at + 1
        at = _bracket(glob, at)[1] if glob[at] == "[" else at + 1 + (glob[at] == "\\")
    yield glob[start:]


def _name(glob: str) -> str:
    """The expression of one name: the pieces between its stars, each at its first occurrence."""
    pieces, at = [""], 0
    while at < len(glob):
        letter = glob[at]
        if letter == "*":
            pieces.append("")
            at += 1
        elif letter == "[":
            found, at = _bracket(glob, at)
            pieces[-1] += found
        elif letter == "?":
            pieces[-1] += "[^/]"
            at += 1
        else:
            if letter == "\\":
                at += 1
                if at == len(glob):
                    return _NEVER
            pieces[-1] += re.escape(glob[at])
            at += 1
    first, *others = pieces
    if not others:
        return first
    between = "".join(f"(?>[^/]*?{piece})" for piece in others[:-1] if piece)
    return f"{first}{between}[^/]*{others[-1]}"


def _bracket(glob: str, start: int) -> tuple[str, int]:
    """The expression of `[...]` and where it ends; without a closing bracket, it fits nothing."""
    at = start + 1
    is_not = glob[at : at + 1] in ("!", "^")
    at += is_not
    inside, first = "", at
    while at < len(glob) and (glob[at] != "]" or at == first):
        if named := re.compile(r"\[:(\w+):\]").match(glob, at):
            if named[1] not in _CLASSES:
                return _NEVER, len(glob)
            inside += _CLASSES[named[1]]
            at = named.end()
            continue
        low, at = _letter(glob, at)
        if glob[at : at + 1] == "-" and glob[at + 1 : at + 2] not in ("]", ""):
            high, at = _letter(glob, at + 1)
            inside += f"{re.escape(low)}-{re.escape(high)}" if low <= high else ""
        else:
            inside += re.escape(low)
    if at >= len(glob):
        return _NEVER, len(glob)
    if not inside:
        return ("[^/]" if is_not else _NEVER), at + 1
    return (f"[^/{inside}]" if is_not else f"(?!/)[{inside}]"), at + 1


def _letter(glob: str, at: int) -> tuple[str, int]:
    if glob[at] == "\\" and at + 1 < len(glob):
        at += 1
    return glob[at], at + 1
