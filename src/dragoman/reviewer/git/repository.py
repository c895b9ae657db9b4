"""Ask Git for files and changes, each kind of entry by itself."""

import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

from msgspec import Struct
from msgspec.structs import replace

from ..changes import ChangedLines, read_diff
from ..linters.commands import Commands
from .asking import Asking, GitFailed, RepositoryError, asking

LINK, SUBMODULE = "120000", "160000"  # modes of entries that are not files
EMPTY_TREE = {40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904"}
EMPTY_TREE[64] = "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
AT_ONCE = 16 * 1024 * 1024  # bytes of files read by one command
# Plumbing ignores settings for the format of a diff, so these options concern only its content.
_ALL = ("--relative", "--ita-invisible-in-index")
_RENAMES = "--find-renames=50%"  # a file that was only renamed has no new lines
_RAW = (*_ALL, _RENAMES, "--raw", "-z", "--ignore-submodules=dirty")
_PATCH = (
    *(*_ALL, _RENAMES, "-p", "--unified=0", "--ignore-submodules=all", "--ignore-cr-at-eol"),
    *("--no-ext-diff", "--no-textconv"),
)
_NUMBERS = (*_ALL, "--no-renames", "--numstat", "-z", "--ignore-submodules=all", "--no-textconv")


class Listing(Struct, frozen=True):
    """Every file that is not ignored, and the repositories among them, relative to the directory."""

    files: Sequence[str]
    nested: Sequence[str] = ()


class ChangedFiles(Struct, frozen=True):
    """The changed files with their lines; submodules and clones inside the repository by name."""

    files: Sequence[ChangedLines]
    nested: Sequence[str] = ()
    unmerged: Sequence[str] = ()
    others: Sequence[str] = ()  # changed files without new lines: removed, linked, or not text
    blobs: dict[str, str] = {}  # the object names of staged files
    unwatched: Sequence[str] = ()  # files in which Git was told not to look for changes


class _Entry(Struct, frozen=True):
    """A line of a raw diff."""

    path: str
    modes: tuple[str, str]
    blob: str
    status: str

    @property
    def is_file(self) -> bool:
        return self.status != "D" and self.modes[1] not in (LINK, SUBMODULE)


class _Listed(Struct, frozen=True):
    """A file that Git knows, or that it does not ignore."""

    path: str
    tag: str
    mode: str = ""
    stage: str = "0"

    @property
    def is_new(self) -> bool:
        return self.tag == "?"

    @property
    def is_nested(self) -> bool:
        return self.mode == SUBMODULE

    @property
    def is_unwatched(self) -> bool:
        """Whether Git takes it for unchanged, whatever it says: `git update-index` can be told so in two ways."""
        return self.tag.islower() or self.tag == "S"


class Repository:
    """A directory under Git, which is only read; its settings are looked up once."""

    def __init__(self, commands: Commands, cwd: str) -> None:
        self._commands, self._cwd = commands, cwd
        self._settings: Mapping[str, str] | None = None

    @asynccontextmanager
    async def _asking(self) -> AsyncIterator[Asking]:
        async with asking(self._commands, self._cwd, self._settings) as git:
            self._settings = git.settings
            yield git

    async def files(self) -> Listing:
        """Every file that is not ignored; raises RepositoryError."""
        async with self._asking() as git:
            listed = await _listed(git)
        # A link or a file may be something else by now, which is checked when it is read.
        files = {entry.path for entry in listed if not entry.is_nested}
        return Listing(sorted(files), [entry.path for entry in listed if entry.is_nested])

    async def staged(self) -> ChangedFiles:
        """The changes that the next commit would add; raises RepositoryError."""
        async with self._asking() as git:
            changes = await _changes(git, "--cached", await _commit(git, "HEAD"))
        in_conflict = set(changes.unmerged)
        files = [change for change in changes.files if change.path not in in_conflict]
        return replace(changes, files=files)

    async def changed(self, since: str = "HEAD") -> ChangedFiles:
        """The changes since a commit, and every untracked file (without line numbers: all lines)."""
        async with self._asking() as git:
            with suppress(GitFailed):  # this status means that something has changed
                await git.ask("update-index", "-q", "--unmerged", "--ignore-submodules", "--refresh")
            changes = await _changes(git, await _commit(git, since))
            listed = await _listed(git)
        known = {change.path for change in changes.files}
        unmerged = {entry.path for entry in listed if entry.stage != "0"}
        new = {entry.path for entry in listed if entry.is_new and not entry.is_nested}
        # Git is not asked for changes inside another repository, since it would obey the settings there.
        nested = {*changes.nested, *(entry.path for entry in listed if entry.is_nested and self._has_files(entry))}
        return replace(
            changes,
            files=[*changes.files, *(ChangedLines(path, {}, {}) for path in sorted((new | unmerged) - known))],
            nested=sorted(nested),
            unmerged=sorted(unmerged),
            unwatched=[entry.path for entry in listed if entry.is_unwatched and not git.is_sparse],
        )

    def _has_files(self, entry: "_Listed") -> bool:
        """Whether a submodule has files."""
        return os.path.lexists(os.path.join(self._cwd, entry.path, ".git"))

    async def contents(self, blobs: Sequence[str], largest: int) -> dict[str, bytes | int]:
        """The contents of blobs, of larger ones only the size; raises RepositoryError."""
        found: dict[str, bytes | int] = {}
        async with self._asking() as git:
            checked = await git.told("cat-file", "--batch-check", stdin=_lines(blobs))
            sizes = {name: int(size) for name, _, size in map(str.split, _whole(checked.decode().splitlines()))}
            found.update({name: size for name, size in sizes.items() if size > largest})
            for some in _portions({name: size for name, size in sizes.items() if size <= largest}):
                found.update(_read_batch(await git.told("cat-file", "--batch", stdin=_lines(some))))
        return found


async def _commit(git: Asking, revision: str) -> str:
    """The name of a commit, or of the empty tree before the first one; `A...` is its merge base with HEAD."""
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


async def _changes(git: Asking, *against: str) -> ChangedFiles:
    entries = list(_entries(await git.told("diff-index", *_RAW, *against)))
    patch = (await git.told("diff-index", *_PATCH, *against)).decode(errors="replace")
    changed = {change.path: change for change in read_diff(patch)}
    files = {entry.path: entry for entry in entries if entry.is_file}
    same: set[str] = set()
    if files.keys() - changed.keys():  # a file that Git takes for binary may be text for us
        listed = (await git.told("diff-index", *_NUMBERS, *against)).decode(errors="surrogateescape")
        numbers = [line.split("\t", 2) for line in listed.split("\0") if line]
        binary = {path for added, _, path in numbers if added == "-"}
        whole = {path for path, entry in files.items() if entry.status == "T" or path in binary}
        changed |= {path: ChangedLines(path, {}, {}) for path in whole}
        # Only the index differs; the file itself is unchanged.
        same = {path for path, entry in files.items() if entry.status == "M"} - {path for *_, path in numbers}
    known = changed.keys() & files.keys()
    nested = [entry.path for entry in entries if entry.modes[1] == SUBMODULE]
    return ChangedFiles(
        [changed[path] for path in files if path in known],
        nested,
        sorted({entry.path for entry in entries if entry.status == "U"}),
        sorted({entry.path for entry in entries if entry.status != "U"} - {*known, *nested, *same}),
        {path: entry.blob for path, entry in files.items()},
    )


async def _listed(git: Asking) -> list[_Listed]:
    """The files in the index, and those that could be added to it."""
    words = ("-z", "-t", "-v", "--stage", "--cached", "--others", "--exclude-standard")
    return [_read_listed(line) for line in _names(await git.told("ls-files", *words))]


def _read_listed(line: str) -> _Listed:
    tag, _, rest = line.partition(" ")
    if tag == "?":
        return _Listed(rest.rstrip("/"), tag, SUBMODULE if rest.endswith("/") else "")
    facts, _, path = rest.partition("\t")
    mode, _, stage = facts.split()
    return _Listed(path, tag, mode, stage)


def _entries(raw: bytes) -> Iterator[_Entry]:
    """The entries of a raw diff: facts and path in turn; a renamed file has its old path between them."""
    names = iter(_names(raw))
    for facts in names:
        old, new, _, blob, status = facts.removeprefix(":").split()
        if status.startswith("R"):
            next(names)
        yield _Entry(next(names), (old, new), blob, status[:1])


def _names(listed: bytes) -> list[str]:
    return [name.decode(errors="surrogateescape") for name in listed.split(b"\0") if name]


def _lines(names: Sequence[str]) -> bytes:
    return "".join(f"{name}\n" for name in names).encode()


def _whole(lines: Sequence[str]) -> list[str]:
    """The lines of existing objects."""
    for line in lines:
        if line.endswith(" missing"):
            words = f"the repository lacks the object {line.split()[0]}; git fetch may bring it"
            raise RepositoryError("unreadable_repository", words)
    return list(lines)


def _portions(sizes: dict[str, int]) -> Iterator[list[str]]:
    """Names in groups whose contents are read together."""
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
    """Reads `cat-file --batch`: a line with name, kind and size, then as many bytes and a line end."""
    at = 0
    while at < len(printed):
        end = printed.index(b"\n", at)
        name, _, size = printed[at:end].decode().split()
        at = end + 1 + int(size) + 1
        yield name, printed[end + 1 : at - 1]
