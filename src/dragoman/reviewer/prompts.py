"""Read a prompt: a command, plain words, files that are named, linked or attached, or a diff."""

import os
import re
from collections.abc import Sequence
from typing import Literal
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from .. import schema as s
from .changes import looks_like_diff

Verb = Literal["review", "fix", "explain", "todo", "help", "unknown"]
Extent = Literal["files", "changes", "staged", "diff"]

LONGEST = 10_000  # characters of a prompt that are searched for names and codes
_COMMAND = re.compile(r"\s*/([a-z]+)\b[ \t]*([^\n]*)(.*)", re.DOTALL | re.IGNORECASE)
_VERBS: tuple[tuple[Verb, re.Pattern[str]], ...] = (
    ("explain", re.compile(r"(?i)\b(?:explain|what does|what is|why)\b")),
    ("fix", re.compile(r"(?i)\b(?:fix|repair|correct|clean up|autofix)\b")),
    ("todo", re.compile(r"(?i)\b(?:todos?|fixmes?)\b")),
    ("review", re.compile(r"(?i)\b(?:review|check|lint|analy[sz]e|inspect|look (?:at|over|through)|scan|audit)\b")),
    ("help", re.compile(r"(?i)^\s*(?:help|hello|hi|hey)\b|\bwhat can you do\b|\bwho are you\b")),
)
_STAGED = re.compile(r"(?i)\bstaged\b|\bindex\b")
_CHANGES = re.compile(r"(?i)\b(?:diff|changes?|changed|uncommitted|working tree)\b")
_KEYWORD = re.compile(r"(?i)staged|index|diff|changes?|changed|uncommitted|since|everything|all")
_SINCE = re.compile(r"(?i)\b(?:diff|changes|since)\s+([\w][\w./^~@{}-]*)")
_MENTION = re.compile(
    r"@(\"[^\"]+\"|'[^']+'|[^\s,;]+)|([`\"'][^`\"'\n]+[`\"'])|(?<![\w/.@-])([\w./~-]*[\w/](?:\.\w+)?(?::\d+){0,2})"
)
_CODE = re.compile(r"^(?:[A-Z]{1,8}\d{1,5}|[a-z]+(?:-[a-z0-9]+)+|todo|fixme|xxx|hack|secret|debugger)$")


class Attached(Struct, frozen=True):
    """A file whose text is in the prompt."""

    path: str
    text: str


class ReviewRequest(Struct, frozen=True):
    """A command and its arguments."""

    verb: Verb
    extent: Extent = "files"
    paths: Sequence[str] = ()  # absolute paths; none for the whole project
    attached: Sequence[Attached] = ()
    words: Sequence[str] = ()  # words that are not paths: codes, a commit
    diff: str = ""
    since: str = "HEAD"  # the commit from which changes are counted
    unknown: Sequence[str] = ()  # words of a command that are not a path, code or revision


def understood(blocks: Sequence[s.ContentBlock], cwd: str) -> ReviewRequest:
    """Read a prompt."""
    text = "\n".join(block.text for block in blocks if isinstance(block, s.TextContent))
    attached = tuple(_attached(blocks))
    linked = [path for block in blocks if isinstance(block, s.ResourceLink) and (path := file_of(block.uri))]
    command = _COMMAND.match(text)
    said = f"{command[2]}{command[3]}" if command else text
    diff = said if looks_like_diff(said) else next((a.text for a in attached if looks_like_diff(a.text)), "")
    if diff:
        attached = tuple(a for a in attached if a.text != diff)
    first = said.split("diff --git ", 1)[0] if diff else said
    named, words = _named(first[:LONGEST], cwd, is_command=command is not None)
    paths = (*linked, *named)
    verb = _verb(
        command[1].lower() if command else None,
        first,
        has_files=bool(paths or attached or diff),
        names_finding=bool(codes_in(words)) or any(re.search(r":\d+$", word) for word in words),
    )
    extent = _extent(first, diff, bool(paths or attached))
    since = _SINCE.search(first) if command else None
    revision = since[1] if since else "HEAD"
    unknown = _unknown(words, first, verb, revision) if command and not diff else []
    return ReviewRequest(verb, extent, paths, attached, words, diff, revision, unknown)


def _unknown(words: Sequence[str], said: str, verb: Verb, revision: str) -> list[str]:
    """The unknown words of a command, which must not be ignored, for that would widen the command to everything."""
    if verb not in ("review", "fix", "todo"):
        return []
    taken = {revision, *(codes_in(words) if verb == "fix" else ())}
    return [word for word in words if word not in taken and not _KEYWORD.fullmatch(word)]


def _verb(command: str | None, text: str, *, has_files: bool, names_finding: bool) -> Verb:
    if command is not None:
        known: dict[str, Verb] = {verb: verb for verb in ("review", "fix", "explain", "todo", "help")}
        return known.get(command, "unknown")
    for verb, pattern in _VERBS:
        if pattern.search(text) and (verb != "explain" or names_finding):
            return verb
    return "review" if has_files else "unknown"


def _extent(text: str, diff: str, has_files: bool) -> Extent:
    if diff:
        return "diff"
    if not has_files and _STAGED.search(text):
        return "staged"
    return "changes" if not has_files and _CHANGES.search(text) else "files"


def _named(text: str, cwd: str, *, is_command: bool) -> tuple[list[str], list[str]]:
    """The files and directories that a text names, and the other words that may have a meaning."""
    paths: list[str] = []
    words: list[str] = []
    for found in _MENTION.finditer(text):
        word = (found[1] or found[2] or found[3]).strip("`\"'").rstrip(".,:;!?")
        name = re.sub(r":\d+(?::\d+)?$", "", word)
        path = os.path.normpath(os.path.join(cwd, name))
        is_meant = found[1] or is_command or "/" in name or "." in name
        # A word that looks like a path counts as one even if the file is missing, so that the user is told.
        is_path = bool(found[1]) or bool(name and is_meant and os.path.lexists(path))
        if is_path:
            paths.append(path)
        if word and not (is_path and name == word):
            words.append(word)
    return list(dict.fromkeys(paths)), words


def codes_in(words: Sequence[str]) -> list[str]:
    """The words that look like the code of a finding."""
    return [word for word in words if _CODE.match(word)]


def _attached(blocks: Sequence[s.ContentBlock]) -> "list[Attached]":
    found = []
    for block in blocks:
        if isinstance(block, s.EmbeddedResource) and isinstance(block.resource, s.TextResourceContents):
            uri = block.resource.uri
            found.append(Attached(file_of(uri) or uri, block.resource.text))
    return found


def file_of(uri: str) -> str | None:
    """The path that a `file:` URI names; None for any other URI."""
    parts = urlsplit(uri)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return os.path.normpath(unquote(parts.path)) or None
    return os.path.normpath(uri) if uri.startswith("/") else None
