"""What README.md and docs/ print is run as printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def run(code: str, directory: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=directory,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
    )


def test_the_agent_and_the_client_of_the_readme_talk_to_each_other(tmp_path: Path) -> None:
    agent, client = blocks(ROOT / "README.md")
    (tmp_path / "echo.py").write_text(agent)
    result = run(client, tmp_path)
    assert result.returncode == 0, result.stderr
    assert "You said: hello" in result.stdout
    assert "end_turn" in result.stdout


def test_the_agent_and_the_client_of_the_readme_are_six_lines_at_most() -> None:
    for block in blocks(ROOT / "README.md"):
        lines = [line for line in block.splitlines() if line.strip() and not line.startswith("#")]
        assert len(lines) <= 6


@pytest.mark.parametrize(
    "code",
    [pytest.param(code, id=f"{page.stem}-{i}") for page in PAGES[1:] for i, code in enumerate(blocks(page))],
)
def test_a_program_in_the_docs_runs_as_printed(code: str, tmp_path: Path) -> None:
    result = run(code, tmp_path)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_inside_the_project_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target
