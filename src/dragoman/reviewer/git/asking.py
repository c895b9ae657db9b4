"""Run Git with a configuration of ours, so that nothing in a repository can start a program.

A repository's settings can name programs in dozens of places (filters, fsmonitor, hooks, diff and merge drivers,
pagers, helpers of remotes, included files), and every version of Git adds more.  All of them are ignored.  Git is
given a directory of ours instead, whose `config` is ours and which leads to the repository's objects, refs and
index.  Only single words about the form of files on disk (`KEPT`) are copied, without which unchanged files would
look changed, and the user's file with the names to ignore.  Only plumbing commands are used; none of them writes,
fetches, or starts another program.
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

from ...errors import Error
from ...foundation.directories import config_directory
from ...host.disk import opened
from ...host.git_directories import GitDirectory, find_git_directory, short_text
from ..linters.commands import MOST_OUTPUT, CommandError, Commands, program_named

TIMEOUT = 30.0  # seconds
MOST_INDEX = 1024**3  # bytes; millions of files, and no file that says it is larger than the disk
Kind = Literal["no_repository", "bare_repository", "unknown_revision", "git_missing", "unreadable_repository"]

# Of the repository's own directory, and of the one it shares with other worktrees.
OWN = ("logs", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "CHERRY_PICK_HEAD")
SHARED = ("objects", "refs", "packed-refs", "shallow", "reftable")
_HEAD = re.compile(r"ref:\s*refs/\S+|[0-9a-f]{40}|[0-9a-f]{64}")
# Settings about the form of files on disk; each is a word that names neither a program nor a path.
KEPT = ("autocrlf", "checkstat", "eol", "filemode", "ignorecase", "precomposeunicode", "symlinks", "trustctime")
_KEPT = rf"^(core\.({'|'.join((*KEPT, 'excludesfile'))})|extensions\.objectformat)$"
_WORD = re.compile(r"\w{0,20}", re.ASCII)
CONFIG = """\
[core]
\trepositoryFormatVersion = {version}
\tbare = false
\tfsmonitor = false
\tsparseCheckout = {is_sparse}
\thooksPath = /dev/null
\tattributesFile = /dev/null
\texcludesFile = {ignored}
{kept}[protocol]
\tallow = never
[gc]
\tauto = 0
"""
PLACES = ("GIT_CONFIG_GLOBAL", "XDG_CONFIG_HOME")  # variables that name a user's settings
ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
}


class RepositoryError(Error):
    """A repository cannot be read; the text says why in one sentence, `kind` in one word."""

    def __init__(self, kind: Kind, words: str) -> None:
        super().__init__(words)
        self.kind: Kind = kind


class GitFailed(Error):
    """A command of Git failed; the text is its last line."""


class Asking:
    """One repository, as long as our directory for it exists."""

    def __init__(
        self,
        commands: Commands,
        cwd: str,
        git: str,
        found: GitDirectory,
        settings: Mapping[str, str],
        environ: Mapping[str, str],
    ) -> None:
        self._commands, self._cwd, self._git, self._environ = commands, cwd, git, environ
        self.found, self.settings = found, settings

    @property
    def is_sparse(self) -> bool:
        """Whether only some of the repository's files are checked out."""
        return _is_sparse(self.found)

    async def ask(self, *words: str, stdin: bytes = b"") -> bytes:
        """The output of a Git command; raises GitFailed, or RepositoryError if Git does not answer."""
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
        """The output of a command that fails only if the repository is damaged or incomplete."""
        try:
            return await self.ask(*words, stdin=stdin)
        except GitFailed as exc:
            hint = "; it is a partial clone, and git fetch brings the missing objects" if self._is_partial() else ""
            why = f"Git cannot read the repository {self.found.top}: {exc}{hint}"
            raise RepositoryError("unreadable_repository", why) from exc

    def _is_partial(self) -> bool:
        try:
            packs = os.listdir(os.path.join(self.found.shared, "objects", "pack"))
        except OSError:
            return False
        return any(name.endswith(".promisor") for name in packs)


@asynccontextmanager
async def asking(commands: Commands, cwd: str, settings: Mapping[str, str] | None = None) -> AsyncIterator[Asking]:
    """Read the repository of a directory; raises RepositoryError if there is none that can be read.

    `settings` are those of a previous `Asking`, if there was one, so that they are not read again.
    """
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
            settings = await _settings(commands, git, found) if settings is None else settings
            await asyncio.to_thread(_make_git_directory, directory, found, settings)
        except OSError as exc:
            words = f"the repository {found.top} cannot be read: {exc.strerror or exc}"
            raise RepositoryError("unreadable_repository", words) from exc
        environ = {
            **ENVIRONMENT,
            "HOME": directory,  # the usual place of the user's settings
            "GIT_DIR": directory,
            "GIT_WORK_TREE": found.top,
        }
        yield Asking(commands, cwd, git, found, settings, environ)


def _make_git_directory(directory: str, found: GitDirectory, settings: Mapping[str, str]) -> None:
    """Make a Git directory that leads to the data of another one, but to no programs that its settings name."""
    _link(directory, found.path, (*OWN, *_parts_of_index(found.path)))
    _link(directory, found.shared, SHARED)
    os.mkdir(os.path.join(directory, "info"))
    _link(os.path.join(directory, "info"), os.path.join(found.shared, "info"), ("exclude",))
    _write(os.path.join(directory, "HEAD"), _head(found))
    _copy(_index(found), os.path.join(directory, "index"))  # ours can be refreshed, theirs is not touched
    extensions = _extensions(found.shared, settings)
    ignored = settings.get("core.excludesfile", str(config_directory().with_name("git") / "ignore"))
    config = CONFIG.format(
        version=int(bool(extensions)),
        is_sparse=str(_is_sparse(found)).lower(),
        ignored=_quoted(ignored),
        kept=_lines({name: value for name in KEPT if (value := settings.get(f"core.{name}")) is not None}),
    )
    _write(
        os.path.join(directory, "config"), config + (f"[extensions]\n{_lines(extensions)}" if extensions else "")
    )


def _lines(settings: Mapping[str, str]) -> str:
    return "".join(f"\t{name} = {value}\n" for name, value in settings.items())


def _link(directory: str, source: str, names: Sequence[str]) -> None:
    for name in names:
        if os.path.exists(place := os.path.join(source, name)):
            os.symlink(place, os.path.join(directory, name))


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


def _copy(source: str, target: str) -> None:
    """Copy a regular file, if there is one; a pipe or a device would never end."""
    if not os.path.lexists(source):
        return
    with opened(source, follow=True) as (fd, status):
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "its index is not a file")
        if status.st_size > MOST_INDEX:
            raise OSError(errno.EFBIG, f"its index is larger than {MOST_INDEX // 2**20} MiB")
        with open(fd, "rb", closefd=False) as file, open(target, "wb") as copy:
            shutil.copyfileobj(file, copy)
    # By this time Git finds files changed in the second in which the index was written, which it has to compare.
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _head(found: GitDirectory) -> str:
    """The checked-out commit or branch; in old repositories HEAD is a link."""
    path = os.path.join(found.path, "HEAD")
    text = f"ref: {os.readlink(path)}\n" if os.path.islink(path) else short_text(path) or ""
    if not _HEAD.fullmatch(text.strip()):
        raise OSError(errno.EINVAL, "its HEAD names neither a branch nor a commit")
    return text


def _index(found: GitDirectory) -> str:
    """The index; in a hook of a commit, the index of that commit."""
    own = os.environ.get("GIT_INDEX_FILE")
    if own and found.top:
        place = os.path.realpath(os.path.join(found.top, own))
        if os.path.dirname(place) == found.path:
            return place
    return os.path.join(found.path, "index")


def _parts_of_index(path: str) -> list[str]:
    return [name for name in os.listdir(path) if name.startswith("sharedindex.")]


def _is_sparse(found: GitDirectory) -> bool:
    return os.path.exists(os.path.join(found.path, "info", "sparse-checkout"))


def _extensions(shared: str, settings: Mapping[str, str]) -> dict[str, str]:
    """The settings for the layout of the repository's data, where it differs from the usual one."""
    found = {"refStorage": "reftable"} if os.path.isdir(os.path.join(shared, "reftable")) else {}
    is_long = settings.get("extensions.objectformat", "").lower() == "sha256"
    return {**found, "objectFormat": "sha256"} if is_long else found


async def _settings(commands: Commands, git: str, found: GitDirectory) -> dict[str, str]:
    """The settings copied from the user and from the repository, which takes precedence."""
    own = os.path.join(found.shared, "config")
    user = await _asked_for(commands, git, "--global", "--includes")
    user.pop("extensions.objectformat", None)
    repository = await _asked_for(commands, git, "--file", own) if os.path.isfile(own) else {}
    repository.pop("core.excludesfile", None)
    return {
        name: value
        for name, value in {**user, **repository}.items()
        if name == "core.excludesfile" or _WORD.fullmatch(value)
    }


async def _asked_for(commands: Commands, git: str, *where: str) -> dict[str, str]:
    """Settings from one file; reading it starts nothing."""
    try:
        words = ("config", *where, "--type=path", "-z", "--get-regexp", _KEPT)
        environ = {name: value for name in PLACES if (value := os.environ.get(name))}
        result = await commands.run([git, *words], cwd="/", env=environ, timeout=TIMEOUT)
    except CommandError as exc:
        raise RepositoryError("unreadable_repository", f"Git gave no answer: {exc}") from exc
    entries = [entry.partition("\n") for entry in os.fsdecode(result.stdout).split("\0") if entry]
    return {name: value for name, _, value in entries}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
