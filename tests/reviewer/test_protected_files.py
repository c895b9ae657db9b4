"""Files that may hold secrets: a sweep over a project asks nobody about them, who names one is asked."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

REVIEW = [sys.executable, "-m", "dragoman", "run", "--agent", "reviewer", "--permissions", "allow-reads", "--cwd"]
# Whoever reads these is asked about; each begins with something to find.
ASKED_ABOUT = (
    *(".claude/settings.json", ".claude/settings.local.json", ".cursor/mcp.json", ".gemini/config.yaml"),
    *(".mcp.json", ".env", ".npmrc", "tests/fixtures/.netrc", "examples/.cargo/config.toml"),
)
READ = (".github/workflows/ci.yml", ".devcontainer/devcontainer.json", "AGENTS.md", ".pre-commit-config.yaml")


@pytest.fixture
def repository(project: Path) -> Path:
    for name in (*ASKED_ABOUT, *READ, "tea.py"):
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("# TODO: brew\n")
    subprocess.run(["git", "init", "--quiet"], cwd=project, check=True)
    subprocess.run(["git", "add", "--all", "--force"], cwd=project, check=True)
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    subprocess.run(["git", *who, "commit", "--quiet", "--message", "first"], cwd=project, check=True)
    return project


def review(project: Path, prompt: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*REVIEW, project, prompt],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "HOME": str(project.parent)},
    )


def test_a_review_under_allow_reads_asks_about_no_file_that_nobody_named(repository: Path) -> None:
    done = review(repository, "/review")
    assert done.returncode == 0, done.stderr
    told = f"and {len(ASKED_ABOUT) - 3} more: may hold secrets, so it is read only if you name it"
    assert ".claude/settings.json, " in done.stdout and told in done.stdout
    assert "`tea.py:1` note" in done.stdout and "`.github/workflows/ci.yml:1` note" in done.stdout


def test_a_review_of_changes_under_allow_reads_asks_about_none_of_them_either(repository: Path) -> None:
    for name in (".claude/settings.json", "tea.py"):
        (repository / name).write_text("# TODO: brew\n# FIXME: pour\n")
    done = review(repository, "/review diff")
    assert done.returncode == 0, done.stderr
    assert ".claude/settings.json: may hold secrets" in done.stdout
    assert "`tea.py:2` note" in done.stdout


@pytest.mark.parametrize("name", ASKED_ABOUT)
def test_a_file_that_is_named_is_asked_about(repository: Path, name: str) -> None:
    done = review(repository, f"/review {name}")
    assert done.returncode == 4, done.stderr
    assert "TODO" not in done.stdout
