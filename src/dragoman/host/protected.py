"""Paths that always need a question: one table of files that start programs, hold secrets or instruct agents.

A row says why a program's file matters.  The user is asked about every write, and about a read if the file may hold
a secret.  The permission engine, the coder's modes and the sandbox (`cover`) all use this table.  Names are
compared without regard to case, composition and invisible characters, as some file systems do; files that do not
exist yet are protected too.  Git's own directories are recognised by their content (`git_directories.py`).
"""

import functools
import os
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Literal

from msgspec import Struct

from ..foundation.programs import own_places
from .git_directories import around

# What commands in a sandbox cannot do: nothing is prevented, changing an existing one, or creating it as well.
Cover = Literal["no", "existing", "always"]


class Row(Struct, frozen=True):
    """Names, or paths of several parts, that are protected in every directory, with everything below them."""

    paths: str
    reason: str
    secret: bool = False  # reading it needs a question, too
    cover: Cover = "no"
    exact: bool = False  # only in exactly this case


class Protection(Struct, frozen=True):
    """Why a path is protected."""

    name: str
    reason: str
    secret: bool

    def __str__(self) -> str:
        return f"{self.name} is protected: {self.reason}"


TABLE = (
    Row(
        """.bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin
        .zlogout .kshrc .mkshrc .cshrc .tcshrc .login .logout .inputrc .xprofile .xsession .xinitrc .xsessionrc
        .pam_environment .config/fish .config/environment.d""",
        "a shell or a login runs it",
        secret=True,
    ),
    Row(
        """.ssh .aws .azure .gnupg .kube .docker .netrc _netrc .git-credentials .pgpass .my.cnf .password-store
        .vault-token .terraformrc .boto .s3cfg .htpasswd .config/gh .config/gcloud .config/github-copilot
        .cargo/credentials .cargo/credentials.toml .local/share/keyrings library/keychains""",
        "it holds keys or passwords",
        secret=True,
    ),
    Row(".env*", "it holds secrets of the project", secret=True),
    Row(".envrc", "a shell runs it when the directory is entered", cover="always"),
    Row(".autoenv .mise.toml mise.toml .mise", "a shell runs it when the directory is entered", cover="existing"),
    Row(
        """.npmrc .yarnrc .yarnrc.yml .pnpmrc .pypirc .pip .gem .config/pip .cargo/config .cargo/config.toml
        .gradle/gradle.properties""",
        "a package manager takes tokens, sources and programs from it",
        secret=True,
    ),
    Row(".yarn/releases .yarn/plugins", "Yarn runs it", cover="existing"),
    Row(
        """.vscode .vscode-server .idea .fleet .zed .nvim.lua .exrc .lvimrc .dir-locals.el .dir-locals-2.el
        .devcontainer .devcontainer.json""",
        "an editor runs what it says when the directory is opened",
        cover="always",
    ),
    Row(
        """.vimrc .nvimrc .gvimrc .emacs .emacs.d .helix .config/nvim .config/zed *.code-workspace
        *.sublime-project .ycm_extra_conf.py .externaltoolbuilders .gitpod.yml""",
        "an editor runs what it says when the directory is opened",
        cover="existing",
    ),
    Row(
        """.gdbinit .lldbinit .pdbrc .rprofile .ghci .irbrc .pryrc .byebugrc .octaverc .ocamlinit .tmux.conf
        .screenrc""",
        "a program that is started in the directory runs it",
        cover="existing",
    ),
    Row(
        ".cursor .claude .codex .gemini .opencode .mcp.json",
        "an agent takes programs, permissions and servers from it",
        secret=True,
        cover="always",
    ),
    Row(
        """.claude.json .windsurf .qwen .kimi .goose .openhands .continue .cline .roo .amp .augment .kiro .trae
        .aider.conf.yml .junie .copilot mcp.json .acp.json .dragoman opencode.json opencode.jsonc
        .config/goose .config/opencode .config/dragoman .local/state/dragoman""",
        "an agent takes programs, permissions and servers from it",
        secret=True,
        cover="existing",
    ),
    Row(
        "AGENTS.md AGENT.md AGENTS.override.md CLAUDE.md CLAUDE.local.md GEMINI.md QWEN.md SKILL.md",
        "it instructs every agent that works here",
        exact=sys.platform == "linux",  # docs/agents.md is another file there
    ),
    Row(
        """.agents .cursorrules .windsurfrules .clinerules .roomodes .rules .goosehints .github/instructions
        .github/copilot-instructions.md .github/prompts .github/agents .github/chatmodes""",
        "it instructs every agent that works here",
    ),
    Row(".gitmodules", "Git takes programs and addresses from it", cover="always"),
    Row(".gitconfig .config/git", "Git takes programs and addresses from it", cover="existing"),
    Row(
        """.husky .pre-commit-config.yaml .pre-commit-hooks.yaml .lefthook.yml .lefthook.yaml lefthook.yml
        lefthook.yaml lefthook-local.yml lefthook-local.yaml .lefthook .lefthook-local .overcommit.yml""",
        "Git runs it when something is committed",
        cover="existing",
    ),
    Row(".hg .svn .bzr .jj .sl .pijul _darcs", "version control takes programs from it", cover="existing"),
    Row(
        """.github/workflows .github/actions .gitea/workflows .gitea/actions .forgejo/workflows .forgejo/actions
        .gitlab-ci.yml .travis.yml .circleci .buildkite .drone.yml .drone.yaml .drone.star .drone.jsonnet
        .woodpecker .woodpecker.yml .woodpecker.yaml .appveyor.yml appveyor.yml azure-pipelines.yml
        .azure-pipelines bitbucket-pipelines.yml jenkinsfile .cirrus.yml .cirrus.star .semaphore .teamcity .tekton
        .build.yml .builds cloudbuild.yaml buildspec.yml""",
        "a build server runs it",
        cover="existing",
    ),
    Row(
        ".config/systemd .config/autostart .local/share/applications library/launchagents",
        "the system starts what it names",
        secret=True,
    ),
)
_OWN = "Dragoman keeps its own settings and records there"
_RUNS_US = "Dragoman itself runs from there"
_GIT = "Git takes programs and history from its own directory"
_SETTINGS_OF_GIT = frozenset(("config", "config.worktree", "credentials"))
_ROWS = {path.lower(): row for row in TABLE for path in row.paths.split()}
_PATTERNS = {path: row for path, row in _ROWS.items() if "*" in path}
_LONGEST = max(path.count("/") + 1 for path in _ROWS)


def protected_by(path: str, own: Iterable[str] = ()) -> Protection | None:
    """Why a path is protected, the strongest reason first; None if it is not.

    `own` are further directories and files that are protected with everything in them.
    """
    found = [*_by_name(path), *_below(path, own, _OWN, secret=True), *_below(path, own_places(), _RUNS_US)]
    if not any(protection.secret for protection in found) and (git := _in_git(path)):
        found.append(git)
    return max(found, key=lambda protection: protection.secret, default=None)


def covered(cover: Cover) -> list[str]:
    """The names, except patterns, that a sandbox covers in this way."""
    return sorted(path for path, row in _ROWS.items() if row.cover == cover and path not in _PATTERNS)


def is_covered(name: str) -> bool:
    """Whether a sandbox covers an existing entry of the workspace's top directory."""
    part = _folded(name)
    row = _ROWS.get(part) or next((row for glob, row in _PATTERNS.items() if fnmatchcase(part, glob)), None)
    return row is not None and row.cover != "no"


def _by_name(path: str) -> Iterator[Protection]:
    parts, written = _parts(path), _written(path)
    for size in range(1, _LONGEST + 1):
        for i in range(len(parts) - size + 1):
            row, name = _ROWS.get("/".join(parts[i : i + size])), "/".join(written[i : i + size])
            if row and (not row.exact or name in row.paths.split()):
                yield Protection(name, row.reason, row.secret)
    for part, name in zip(parts, written, strict=True):
        for glob, row in _PATTERNS.items():
            if fnmatchcase(part, glob):
                yield Protection(name, row.reason, row.secret)


def _below(path: str, places: Iterable[str], reason: str, *, secret: bool = False) -> Iterator[Protection]:
    parts = _parts(path)
    for place in places:
        above = _parts(place)
        if above and parts[: len(above)] == above:
            yield Protection(place, reason, secret)


def _in_git(path: str) -> Protection | None:
    """Whether a path belongs to a Git directory, by its name or by the files around it."""
    parts = _parts(path)
    for name in (".git", "git~1"):  # on old file systems, the second is a name of the first
        if name in parts:
            at = parts.index(name)
            is_secret = not _SETTINGS_OF_GIT.isdisjoint(parts[at + 1 :])
            return Protection("/".join(_written(path)[at:]), _GIT, is_secret)
    if found := around(os.path.normpath(path)):
        directory, rest = found
        is_secret = not _SETTINGS_OF_GIT.isdisjoint(_parts(rest))
        return Protection(f"{os.path.basename(directory)}/{rest}", _GIT, is_secret)
    return None


@functools.lru_cache(256)
def _parts(path: str) -> list[str]:
    return [_folded(part) for part in _written(path)]


def _written(path: str) -> list[str]:
    return [part for part in os.path.normpath(path).split("/") if part]


def folded(text: str) -> str:
    """A name as compared by a file system that ignores case and composition."""
    return unicodedata.normalize("NFC", text).casefold()


def _folded(part: str) -> str:
    if part.isascii():
        return part.lower().rstrip(". ") or part
    seen = "".join(char for char in part if unicodedata.category(char) != "Cf")
    return folded(seen).rstrip(". ") or part
