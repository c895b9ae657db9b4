"""What README.md and docs/ print is run as printed."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
from patience import PATIENCE

from dragoman import connect
from dragoman.testing import RecordingClient

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN_ELSEWHERE = {"migrating"}  # tests/test_migrating.py


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
        timeout=PATIENCE,
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
    [
        pytest.param(code, id=f"{page.parent.name}-{page.stem}-{i}")
        for page in PAGES[1:]
        if page.stem not in RUN_ELSEWHERE
        for i, code in enumerate(blocks(page))
    ],
)
def test_a_program_in_the_docs_runs_as_printed(code: str, tmp_path: Path) -> None:
    result = run(code, tmp_path)
    assert result.returncode == 0, result.stderr


AGENTS = [
    pytest.param(code, id=f"{page.parent.name}-{page.stem}-{i}")
    for page in PAGES
    for i, code in enumerate(blocks(page))
    if "\nserve(" in code and page.stem not in RUN_ELSEWHERE
]


@pytest.mark.parametrize("answer", ["allow", "reject", "cancel"])
@pytest.mark.parametrize("broken", [False, True], ids=["all is well", "commands fail"])
@pytest.mark.parametrize("code", AGENTS)
async def test_an_agent_in_the_docs_answers_also_when_it_is_refused_or_a_command_fails(
    code: str,
    broken: bool,
    answer: Literal["allow", "reject", "cancel"],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its turn ends by a stop reason, never by an error of its own."""
    monkeypatch.chdir(tmp_path)  # where the client's terminals are
    files = dict.fromkeys(("a.py", "notes.txt"), "  tea = (\n" if broken else "  tea = 1\n")
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "agent.py").write_text(code)
    lent = {str(tmp_path / name): text for name, text in files.items()}
    client = RecordingClient(permissions=answer, files=lent, form={"name": "Ann"})
    environment = {"XDG_STATE_HOME": str(tmp_path / "state")}
    async with connect([sys.executable, str(tmp_path / "agent.py")], client, env=environment):
        session = await client.new_session(tmp_path)
        assert (await session.prompt("hello")).stop_reason in ("end_turn", "refusal")
        if session.modes:
            await session.set_mode(session.modes.available_modes[-1].id)
            assert (await session.prompt("again")).stop_reason == "end_turn"
    assert client.terminals == []


def test_no_program_in_the_docs_is_left_out() -> None:
    for page in PAGES:
        assert not re.findall(r"```(?:py|python )", page.read_text().replace("```python\n", "")), page


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_every_link_inside_the_project_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target
