"""A repository with others in it and beside it, in every way that Git links them."""

import subprocess
from pathlib import Path

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "protocol.file.allow=always")
# Where Git keeps data in such a repository, what it reads there, and what leads there.
GIT_DIRECTORIES = (".git", ".git/modules/sub", ".git/worktrees/tree", "vendor/nested/.git", "data/store", "apart")
CONTROL = (
    *("HEAD", "config", "config.worktree", "commondir", "gitdir", "hooks/pre-commit", "info/attributes", "index"),
    *("rebase-merge/git-rebase-todo", "sequencer/todo", "objects/info/alternates", "refs/heads/new", "packed-refs"),
)
LINKS = ("sub/.git", "tree/.git", "split/.git", "vendor/nested/.git")


def git(at: Path, *words: str) -> None:
    subprocess.run([*GIT, *words], cwd=at, check=True, capture_output=True, timeout=60)


def repositories(root: Path) -> Path:
    """Make one with a submodule, a worktree, a clone, a bare clone and a Git directory set apart."""
    main = root / "main"
    for at in (main, root / "other", main / "vendor" / "nested"):
        at.mkdir(parents=True)
        git(at, "init", "-q")
        (at / "file").write_text("content")
        git(at, "add", "file")
        git(at, "commit", "-qm", "first")
    git(main, "submodule", "--quiet", "add", str(root / "other"), "sub")
    git(main, "worktree", "add", "-q", str(main / "tree"))
    git(main, "clone", "-q", "--bare", ".", "data/store")
    git(main, "init", "-q", "--separate-git-dir", str(main / "apart"), "split")
    return main
