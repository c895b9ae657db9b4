"""What is asked of Git: which files there are, and what has changed, each kind of entry by itself."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from ..changes import Change, read_diff
from ..commands import Commands
from .asking import Asking, GitFailed, RepositoryError, asking

LINK, SUBMODULE = "120000", "160000"  # modes of entries that are no files
EMPTY_TREE = {40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904"}
EMPTY_TREE[64] = "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
AT_ONCE = 16 * 1024 * 1024  # bytes of files read by one command
# The same whatever the user or the repository has set: which lines, named how, without starting anything.
_RAW = ("--raw", "-z", "--no-renames", "--ignore-submodules=dirty", "--relative")
_PATCH = (
    *("-p", "--unified=0", "--no-renames", "--ignore-submodules=all", "--relative", "--no-color", "--no-ext-diff"),
    *("--no-textconv", "--ignore-cr-at-eol", "--src-prefix=a/", "--dst-prefix=b/", "--diff-algorithm=myers"),
)
_NUMBERS = ("--numstat", "-z", "--no-renames", "--ignore-submodules=all", "--relative", "--no-textconv")


class Listing(Struct, frozen=True):
    """Every file that is not ignored, and the repositories among them, relative to the directory."""

    files: Sequence[str]
    nested: Sequence[str] = ()


class Changes(Struct, frozen=True):
    """The files that have changed, with their lines; submodules and clones inside of the repository by name."""

    files: Sequence[Change]
    nested: Sequence[str] = ()
    unmerged: Sequence[str] = ()
    others: Sequence[str] = ()  # that have no new lines: removed, linked, or other than text
    blobs: dict[str, str] = {}  # of staged files: the names of their contents


class _Entry(Struct, frozen=True):
    """A line of a raw diff."""

    path: str
    modes: tuple[str, str]
    blob: str
    status: str

    @property
    def is_file(self) -> bool:
        return self.status != "D" and self.modes[1] not in (LINK, SUBMODULE)


class Repository:
    """A directory under Git, which is asked and never told."""

    def __init__(self, commands: Commands, cwd: str) -> None:
        self._commands, self._cwd = commands, cwd

    async def files(self) -> Listing:
        """Every file that is not ignored; raises RepositoryError."""
        async with asking(self._commands, self._cwd) as git:
            tracked = _names(await git.told("ls-files", "-z", "--stage"))
            new = _names(await git.told("ls-files", "-z", "--others", "--exclude-standard"))
        entries = [entry.partition("\t") for entry in tracked]
        files = [path for facts, _, path in entries if not facts.startswith((LINK, SUBMODULE))]
        nested = [path for facts, _, path in entries if facts.startswith(SUBMODULE)]
        nested += [path.rstrip("/") for path in new if path.endswith("/")]
        return Listing(sorted({*files, *(path for path in new if not path.endswith("/"))}), nested)

    async def staged(self) -> Changes:
        """What the next commit would add; raises RepositoryError."""
        async with asking(self._commands, self._cwd) as git:
            changes = await _changes(git, "--cached", await _commit(git, "HEAD"))
        in_conflict = set(changes.unmerged)
        files = [change for change in changes.files if change.path not in in_conflict]
        return replace(changes, files=files)

    async def changed(self, since: str = "HEAD") -> Changes:
        """What has changed since a commit, and every file Git does not know yet (no line named: all of them)."""
        async with asking(self._commands, self._cwd) as git:
            with suppress(GitFailed):  # that is how it says that something has changed
                await git.ask("update-index", "-q", "--unmerged", "--ignore-submodules", "--refresh")
            changes = await _changes(git, await _commit(git, since))
            new = _names(await git.told("ls-files", "-z", "--others", "--exclude-standard"))
        whole = [*changes.unmerged, *(path for path in new if not path.endswith("/"))]
        files = [change for change in changes.files if change.path not in changes.unmerged]
        nested = [*changes.nested, *(path.rstrip("/") for path in new if path.endswith("/"))]
        return replace(changes, files=[*files, *(Change(path, {}, {}) for path in whole)], nested=nested)

    async def contents(self, blobs: Sequence[str], largest: int) -> dict[str, bytes | int]:
        """What blobs hold, or the size alone of those that are larger; raises RepositoryError."""
        found: dict[str, bytes | int] = {}
        async with asking(self._commands, self._cwd) as git:
            checked = await git.told("cat-file", "--batch-check", stdin=_lines(blobs))
            sizes = {name: int(size) for name, _, size in map(str.split, _whole(checked.decode().splitlines()))}
            found.update({name: size for name, size in sizes.items() if size > largest})
            for some in _portions({name: size for name, size in sizes.items() if size <= largest}):
                found.update(_read_batch(await git.told("cat-file", "--batch", stdin=_lines(some))))
        return found


async def _commit(git: Asking, revision: str) -> str:
    """The name of a commit, or of the empty tree before the first one; `A...` is where it and HEAD part."""
    base, dots, other = revision.partition("...")
    try:
        if dots:
            name = await git.ask("merge-base", "--end-of-options", base or "HEAD", other or "HEAD")
        else:
            name = await git.ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        return name.decode().strip()
    except GitFailed as exc:
        if revision == "HEAD" and await _is_unborn(git):
            return EMPTY_TREE[64 if await _hashes_long(git) else 40]
        is_shallow = os.path.exists(os.path.join(git.found.shared, "shallow"))
        hint = "; it is a shallow clone, and git fetch --unshallow brings the rest" if is_shallow else ""
        words = f"the repository {git.found.top} has no commit {revision!r}{hint}"
        raise RepositoryError("unknown_revision", words) from exc


async def _is_unborn(git: Asking) -> bool:
    """Whether there is no commit yet: HEAD names a branch that does not exist."""
    try:
        await git.ask("rev-parse", "--verify", "--quiet", "HEAD")
    except GitFailed:
        return True
    return False


async def _hashes_long(git: Asking) -> bool:
    return (await git.told("rev-parse", "--show-object-format")).strip() == b"sha256"


async def _changes(git: Asking, *against: str) -> Changes:
    entries = list(_entries(await git.told("diff-index", *_RAW, *against)))
    patch = (await git.told("diff-index", *_PATCH, *against)).decode(errors="replace")
    changed = {change.path: change for change in read_diff(patch)}
    files = {entry.path: entry for entry in entries if entry.is_file}
    if files.keys() - changed.keys():  # what has no lines for Git may be text for us
        listed = (await git.told("diff-index", *_NUMBERS, *against)).decode(errors="surrogateescape")
        binary = {line[len("-\t-\t") :] for line in listed.split("\0") if line.startswith("-\t-\t")}
        whole = {path for path, entry in files.items() if entry.status == "T" or path in binary}
        changed |= {path: Change(path, {}, {}) for path in whole}
    known = changed.keys() & files.keys()
    nested = [entry.path for entry in entries if entry.modes[1] == SUBMODULE]
    return Changes(
        [changed[path] for path in files if path in known],
        nested,
        sorted({entry.path for entry in entries if entry.status == "U"}),
        sorted({entry.path for entry in entries if entry.status != "U"} - {*known, *nested}),
        {path: entry.blob for path, entry in files.items()},
    )


def _entries(raw: bytes) -> Iterator[_Entry]:
    """The lines of a raw diff: facts and path in turn."""
    for facts, path in list(pairwise(_names(raw)))[::2]:
        old, new, _, blob, status = facts.removeprefix(":").split()
        yield _Entry(path, (old, new), blob, status[:1])


def _names(listed: bytes) -> list[str]:
    return [name.decode(errors="surrogateescape") for name in listed.split(b"\0") if name]


def _lines(names: Sequence[str]) -> bytes:
    return "".join(f"{name}\n" for name in names).encode()


def _whole(lines: Sequence[str]) -> list[str]:
    """The lines that tell of something that is there."""
    for line in lines:
        if line.endswith(" missing"):
            words = f"the repository lacks the object {line.split()[0]}; git fetch may bring it"
            raise RepositoryError("unreadable_repository", words)
    return list(lines)


def _portions(sizes: dict[str, int]) -> Iterator[list[str]]:
    """Names in groups whose contents are read at once."""
    some: list[str] = []
    room = AT_ONCE
    for name, size in sizes.items():
        if some and size > room:
            yield some
            some, room = [], AT_ONCE
        some.append(name)
        room -= size
    if some:
        yield some


def _read_batch(printed: bytes) -> Iterator[tuple[str, bytes]]:
    """What `cat-file --batch` prints: a line with name, kind and size, then so many bytes and a line end."""
    at = 0
    while at < len(printed):
        end = printed.index(b"\n", at)
        name, _, size = printed[at:end].decode().split()
        at = end + 1 + int(size) + 1
        yield name, printed[end + 1 : at - 1]
