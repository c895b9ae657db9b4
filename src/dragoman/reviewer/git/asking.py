"""How Git is asked: with a configuration of ours, so that nothing a repository holds can start a program.

A repository's settings can name programs in dozens of places (filters, fsmonitor, hooks, diff and merge drivers,
pagers, helpers of remotes, included files), and there are more with every version of Git.  None of them is read.
Git is shown a directory of ours instead, with a `config` of ours, that leads to the repository's objects, refs and
index.  The user's and the system's settings do not count either, but for the file with the names to ignore.  Only
plumbing commands are used; none of them writes, fetches, or starts another program.
"""

import asyncio
import errno
import os
import re
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Literal

from ...directories import config_directory
from ...errors import Error
from ...host.git_directories import GitDirectory, find_git_directory, short_text
from ..commands import MOST_OUTPUT, CommandError, Commands, program_named

TIMEOUT = 30.0  # seconds
Kind = Literal["no_repository", "bare_repository", "unknown_revision", "git_missing", "unreadable_repository"]

# Of the repository's own directory, and of the one it shares with other worktrees.
OWN = ("logs", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD")
SHARED = ("objects", "refs", "packed-refs", "shallow", "reftable")
_HEAD = re.compile(r"ref:\s*refs/\S+|[0-9a-f]{40}|[0-9a-f]{64}")
CONFIG = """\
[core]
\trepositoryFormatVersion = {version}
\tbare = false
\tfsmonitor = false
\thooksPath = /dev/null
\tattributesFile = /dev/null
\texcludesFile = {ignored}
[protocol]
\tallow = never
[gc]
\tauto = 0
"""
ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
}


class RepositoryError(Error):
    """A repository cannot be asked; the text says why in one sentence, `kind` in one word."""

    def __init__(self, kind: Kind, words: str) -> None:
        super().__init__(words)
        self.kind: Kind = kind


class GitFailed(Error):
    """A command of Git failed; the text is its last line."""


class Asking:
    """One repository, as long as its directory of ours is there."""

    def __init__(
        self, commands: Commands, cwd: str, git: str, found: GitDirectory, environ: Mapping[str, str]
    ) -> None:
        self._commands, self._cwd, self._git, self._environ = commands, cwd, git, environ
        self.found = found

    async def ask(self, *words: str, stdin: bytes = b"") -> bytes:
        """What a command of Git prints; raises GitFailed, or RepositoryError when there is no answer at all."""
        try:
            result = await self._commands.run(
                [self._git, *words], cwd=self._cwd, stdin=stdin, env=self._environ, timeout=TIMEOUT
            )
        except CommandError as exc:
            raise RepositoryError("unreadable_repository", f"Git gave no answer: {exc}") from exc
        if len(result.stdout) >= MOST_OUTPUT:
            much = f"Git's answer is longer than {MOST_OUTPUT // 2**20} MiB; name files or directories instead"
            raise RepositoryError("unreadable_repository", much)
        if result.code:
            said = result.stderr.decode(errors="replace").strip().splitlines()
            raise GitFailed(said[-1] if said else f"git ended with status {result.code}")
        return result.stdout

    async def told(self, *words: str, stdin: bytes = b"") -> bytes:
        """What a command prints that fails only where the repository is damaged or incomplete."""
        try:
            return await self.ask(*words, stdin=stdin)
        except GitFailed as exc:
            hint = "; it is a partial clone, and git fetch brings what is missing" if self._is_partial() else ""
            why = f"Git cannot read the repository {self.found.top}: {exc}{hint}"
            raise RepositoryError("unreadable_repository", why) from exc

    def _is_partial(self) -> bool:
        try:
            packs = os.listdir(os.path.join(self.found.shared, "objects", "pack"))
        except OSError:
            return False
        return any(name.endswith(".promisor") for name in packs)


@asynccontextmanager
async def asking(commands: Commands, cwd: str) -> AsyncIterator[Asking]:
    """A way to ask the repository of a directory; raises RepositoryError when there is none to ask."""
    git = program_named("git", cwd)
    if git is None:
        raise RepositoryError("git_missing", "Git is not installed")
    found = find_git_directory(cwd)
    if found is None:
        words = f"{cwd} is not in a Git repository; name files or directories instead"
        raise RepositoryError("no_repository", words)
    if found.top is None:
        words = f"{found.path} is a bare Git repository, which has no files; open a session in a clone of it"
        raise RepositoryError("bare_repository", words)
    with tempfile.TemporaryDirectory(prefix="dragoman-git-") as directory:
        try:
            await asyncio.to_thread(_furnish, directory, found, await _ignored_by_user(commands, git))
        except OSError as exc:
            words = f"the repository {found.top} cannot be read: {exc.strerror or exc}"
            raise RepositoryError("unreadable_repository", words) from exc
        environ = {
            **ENVIRONMENT,
            "HOME": directory,
            "XDG_CONFIG_HOME": directory,
            "GIT_DIR": directory,
            "GIT_WORK_TREE": found.top,
        }
        yield Asking(commands, cwd, git, found, environ)


def _furnish(directory: str, found: GitDirectory, ignored: str) -> None:
    """Make a Git directory that leads to the data of another one, and to none of its settings."""
    _link(directory, found.path, (*OWN, *_parts_of_index(found.path)))
    _link(directory, found.shared, SHARED)
    os.mkdir(os.path.join(directory, "info"))
    _link(os.path.join(directory, "info"), os.path.join(found.shared, "info"), ("exclude",))
    _write(os.path.join(directory, "HEAD"), _head(found))
    _copy(_index(found), os.path.join(directory, "index"))  # ours can be refreshed, theirs is left alone
    extensions = _extensions(found.shared)
    lines = "".join(f"\t{name} = {value}\n" for name, value in extensions.items())
    config = CONFIG.format(version=int(bool(extensions)), ignored=_quoted(ignored))
    _write(os.path.join(directory, "config"), config + (f"[extensions]\n{lines}" if lines else ""))


def _link(directory: str, source: str, names: Sequence[str]) -> None:
    for name in names:
        if os.path.exists(place := os.path.join(source, name)):
            os.symlink(place, os.path.join(directory, name))


def _write(path: str, text: str) -> None:
    with open(path, "w", errors="surrogateescape") as file:
        file.write(text)


def _copy(source: str, target: str) -> None:
    """Copy a file, if there is one; a pipe or a device would never end."""
    try:
        fd = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "its index is not a file")
        with open(target, "wb") as copy:
            shutil.copyfileobj(file, copy)


def _head(found: GitDirectory) -> str:
    """What is checked out; it was a link in old repositories."""
    path = os.path.join(found.path, "HEAD")
    text = f"ref: {os.readlink(path)}\n" if os.path.islink(path) else short_text(path) or ""
    if not _HEAD.fullmatch(text.strip()):
        raise OSError(errno.EINVAL, "its HEAD names neither a branch nor a commit")
    return text


def _index(found: GitDirectory) -> str:
    """The index: that of the commit being made, where this is run by a hook of it."""
    own = os.environ.get("GIT_INDEX_FILE")
    if own and found.top:
        place = os.path.realpath(os.path.join(found.top, own))
        if os.path.dirname(place) == found.path:
            return place
    return os.path.join(found.path, "index")


def _parts_of_index(path: str) -> list[str]:
    return [name for name in os.listdir(path) if name.startswith("sharedindex.")]


def _extensions(shared: str) -> dict[str, str]:
    """How the repository's data are laid out, told by the data: as far as it differs from the usual way."""
    found = {"refStorage": "reftable"} if os.path.isdir(os.path.join(shared, "reftable")) else {}
    return {**found, "objectFormat": "sha256"} if _has_long_names(shared) else found


def _has_long_names(shared: str) -> bool:
    """Whether the repository says that it names objects by SHA-256."""
    lines = (short_text(os.path.join(shared, "config")) or "").lower().splitlines()
    return any("".join(line.split()) == "objectformat=sha256" for line in lines)


async def _ignored_by_user(commands: Commands, git: str) -> str:
    """The file with the names that the user always ignores, whatever the repository."""
    try:
        words = ("config", "--global", "--includes", "--type=path", "--get", "core.excludesFile")
        set_by_user = await commands.run([git, *words], cwd="/", timeout=TIMEOUT)
    except CommandError as exc:
        raise RepositoryError("unreadable_repository", f"Git gave no answer: {exc}") from exc
    if set_by_user.code == 0:
        return os.fsdecode(set_by_user.stdout).removesuffix("\n")
    return str(config_directory().with_name("git") / "ignore")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
