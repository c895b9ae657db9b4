"""What is never allowed without a question: the files that govern tools or hold secrets.

Names are compared without regard to case, composition and invisible characters, as some file systems do; a file
that does not exist yet is as protected as one that does.
"""

import functools
import os
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

# A path is protected when any of its parts has one of these names.
_NAMES = """
    .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout
    .kshrc .mkshrc .cshrc .tcshrc .login .logout .inputrc .xprofile .xsession .xinitrc .xsessionrc .pam_environment

    .ssh .aws .azure .gnupg .kube .docker .netrc _netrc .npmrc .yarnrc .yarnrc.yml .pnpmrc .pypirc .pip .gem
    .git-credentials .pgpass .my.cnf .password-store .vault-token .terraformrc .boto .s3cfg .htpasswd

    .vscode .vscode-server .idea .fleet .zed .cursor .cursorrules .windsurf .windsurfrules .claude .claude.json
    .codex .gemini .qwen .kimi .goose .opencode .openhands .continue .cline .clinerules .roo .roomodes .amp .augment
    .aider.conf.yml .junie .kiro .trae .copilot .mcp.json mcp.json .acp.json .dragoman .exrc .vimrc .nvimrc .emacs
    .emacs.d

    .gitmodules .gitconfig .husky .pre-commit-config.yaml .pre-commit-hooks.yaml .lefthook.yml lefthook.yml
    .devcontainer .devcontainer.json .gitlab-ci.yml .travis.yml .circleci .buildkite .drone.yml .woodpecker
    .woodpecker.yml .appveyor.yml appveyor.yml azure-pipelines.yml bitbucket-pipelines.yml jenkinsfile .cirrus.yml
    .semaphore .teamcity .gitpod.yml
"""
_PLACES = """
    .github/workflows .github/actions .gitea/workflows .gitea/actions .forgejo/workflows .forgejo/actions
    .cargo/config .cargo/config.toml .cargo/credentials .cargo/credentials.toml .gradle/gradle.properties
    .config/git .config/fish .config/gh .config/gcloud .config/pip .config/systemd .config/autostart .config/nvim
    .config/zed .config/goose .config/opencode .config/github-copilot .config/environment.d .config/dragoman
    .local/state/dragoman .local/share/keyrings .local/share/applications library/launchagents library/keychains
"""
_PROTECTED = frozenset(_NAMES.split())
_PROTECTED_PLACES = frozenset(_PLACES.split())
_IN_GIT = frozenset(("hooks", "config", "config.worktree", "info"))


def protected_by(path: str, own: Iterable[str] = ()) -> str | None:
    """The name that makes a path protected, wherever it lies; None when nothing does.

    `own` are further directories and files that are protected with all that is in them.
    """
    parts = _parts(path)
    for part in parts:
        if part in _PROTECTED or part.startswith(".env"):
            return part
    for size in (2, 3):
        for i in range(len(parts) - size + 1):
            if (place := "/".join(parts[i : i + size])) in _PROTECTED_PLACES:
                return place
    if ".git" in parts:
        inside = parts[parts.index(".git") + 1 :]
        if not inside or not _IN_GIT.isdisjoint(inside):
            return "/".join([".git", *inside])
    for directory in own:
        above = _parts(directory)
        if above and parts[: len(above)] == above:
            return directory
    return None


@functools.lru_cache(256)
def _parts(path: str) -> list[str]:
    return [_folded(part) for part in os.path.normpath(path).split("/") if part]


def has_other_names(path: str) -> bool:
    """Whether a file is there and has another name somewhere (a hard link)."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return status.st_nlink > 1 and stat.S_ISREG(status.st_mode)


def protected_twin(path: str, roots: Sequence[str]) -> str | None:
    """A protected file near the roots, or in the home directory, that is this very file under another name."""
    status = os.lstat(path)
    for other in _protected_files([*roots, str(Path.home())]):
        try:
            if os.path.samestat(status, os.lstat(other)):
                return other
        except OSError:
            continue
    return None


def _protected_files(roots: Iterable[str], most: int = 1000) -> Iterator[str]:
    """Protected files right in the roots and in their protected directories."""
    for root in roots:
        for entry in _entries(root):
            if entry.name == ".git" or protected_by(f"/{entry.name}"):
                for inner in [entry.path, *(f"{entry.path}/{name}" for name in ("config", "hooks"))]:
                    yield inner
                    yield from (file.path for file in _entries(inner))
                if (most := most - 1) < 0:
                    return


def _entries(directory: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as found:
            return [entry for entry, _ in zip(found, range(1000), strict=False)]
    except OSError:
        return []


def folded(text: str) -> str:
    """A name as a file system sees it that ignores case and composition."""
    return unicodedata.normalize("NFC", text).casefold()


def _folded(part: str) -> str:
    if part.isascii():
        return part.lower().rstrip(". ") or part
    seen = "".join(char for char in part if unicodedata.category(char) != "Cf")
    return folded(seen).rstrip(". ") or part
