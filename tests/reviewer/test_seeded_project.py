"""25 planted problems are found, a clean copy raises no alarm, and repairs break nothing."""

import subprocess
import sys
from pathlib import Path

from patience import PATIENCE

from .conftest import Turn, User, reviewing
from .planted import CLEAN, PLANTED, Problem, write_clean, write_seeded


def missed(turn: Turn, wanted: tuple[Problem, ...] = PLANTED) -> list[Problem]:
    return [p for p in wanted if not {(p.path, p.line, code) for code in p.codes} & turn.findings]


def run_its_tests(project: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(project), "tests"]
    done = subprocess.run(
        command, cwd=project, capture_output=True, text=True, timeout=PATIENCE, env={"PYTHONPATH": "."}
    )
    assert done.returncode == 0, done.stdout


async def test_all_planted_problems_are_found(project: Path) -> None:
    write_seeded(project)
    async with reviewing(project) as reviewer:
        turn = await reviewer.say("/review")
    assert len(PLANTED) == 25
    assert missed(turn) == []
    for problem in PLANTED:
        assert f"`{problem.path}:{problem.line}`" in turn.text


async def test_at_least_22_are_found_where_no_linter_is_installed(project: Path, bare_command: list[str]) -> None:
    write_seeded(project)
    async with reviewing(project, command=bare_command) as reviewer:
        turn = await reviewer.say("/review")
    assert {"Ruff", "ty"}.isdisjoint(turn.plans[-1])
    assert missed(turn, tuple(problem for problem in PLANTED if not problem.needs_linter)) == []
    assert len(PLANTED) - len(missed(turn)) >= 22


async def test_a_clean_copy_raises_no_alarm(project: Path) -> None:
    write_clean(project)
    async with reviewing(project) as reviewer:
        turn = await reviewer.say("/review")
    assert turn.findings == set()
    assert f"**Nothing found** in {len(CLEAN)} files." in turn.text


async def test_a_clean_copy_raises_no_alarm_where_no_linter_is_installed(
    project: Path, bare_command: list[str]
) -> None:
    write_clean(project)
    async with reviewing(project, command=bare_command) as reviewer:
        assert (await reviewer.say("/review")).findings == set()


async def test_what_is_safe_is_repaired_and_the_tests_still_pass(project: Path) -> None:
    write_seeded(project)
    run_its_tests(project)
    async with reviewing(project, User("apply")) as reviewer:
        turn = await reviewer.say("/fix")
        again = await reviewer.say("/review")
    run_its_tests(project)
    assert "**Repaired 5 findings** in 4 files" in turn.text
    repaired = {"F401", "F541", "shell-equals-in-sh", "shell-crlf", "json-trailing-comma"}
    assert repaired <= turn.codes
    assert again.codes == turn.codes - repaired
    for name in ("config/app.json", "scripts/clean.sh"):
        assert (project / name).read_text() == CLEAN[name]
