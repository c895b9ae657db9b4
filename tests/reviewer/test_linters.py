"""Linters that are not ours: what they print is understood, and what they do stays within bounds."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from dragoman.reviewer.findings import Finding, without_echoes
from dragoman.reviewer.linters import outputs
from dragoman.reviewer.linters.commands import CommandError, Commands
from dragoman.reviewer.settings import is_configured

from .conftest import User, reviewing

Write = Callable[[str, str], Path]


def told(findings: "outputs.Iterator[Finding]") -> list[tuple[str, int, str, str, str]]:
    return [(f.path, f.line, f.severity, f.code, f.message) for f in findings]


def test_shellcheck_is_understood() -> None:
    printed = b'{"comments":[{"file":"a.sh","line":3,"level":"info","code":2086,"message":"Quote.","fix":null}]}'
    assert told(outputs.shellcheck(printed)) == [("a.sh", 3, "note", "SC2086", "Quote")]


def test_bandit_is_understood_but_its_secrets_are_not_repeated() -> None:
    printed = b"""{"results": [
        {"filename": "a.py", "line_number": 2, "issue_severity": "HIGH", "test_id": "B602", "issue_text": "Shell."},
        {"filename": "a.py", "line_number": 3, "issue_severity": "LOW", "test_id": "B105", "issue_text": "x"}
    ]}"""
    assert told(outputs.bandit(printed)) == [("a.py", 2, "error", "B602", "Shell")]


def test_the_typescript_compiler_is_understood() -> None:
    printed = b"src/a.ts(4,7): error TS2322: Type 'string' is not assignable to type 'number'.\nsomething else\n"
    message = "Type 'string' is not assignable to type 'number'"
    assert told(outputs.tsc(printed)) == [("src/a.ts", 4, "error", "TS2322", message)]


def test_go_vet_is_understood() -> None:
    printed = b"""# example.com/a
{"example.com/a": {"printf": [{"posn": "/p/a.go:7:2", "message": "wrong type"}]}}
# example.com/b
{}
"""
    assert told(outputs.go_vet(printed)) == [("/p/a.go", 7, "warning", "vet-printf", "wrong type")]


@pytest.mark.parametrize(
    "said", ["/bin/sh: 5: Syntax error: end of file unexpected", "bash: line 5: syntax error: x"]
)
def test_shells_are_understood(said: str) -> None:
    (finding,) = outputs.shell_syntax(said.encode())
    assert finding.line == 5


@pytest.mark.parametrize(
    "reading", [outputs.ruff, outputs.ty, outputs.shellcheck, outputs.bandit, outputs.eslint, outputs.cargo]
)
@pytest.mark.parametrize("printed", [b"", b"Segmentation fault", b"[" * 100_000, b"null", b'"text"'])
def test_a_linter_that_prints_something_else_finds_nothing(reading: outputs.Reading, printed: bytes) -> None:
    assert list(reading(printed)) == []


@pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo")
async def test_cargo_checks_a_project_of_its_own(project: Path, write: Write) -> None:
    write("Cargo.toml", '[package]\nname = "small"\nversion = "0.1.0"\nedition = "2021"\n')
    write("src/main.rs", 'fn main() {\n    let unused = 1;\n    println!("hello");\n}\n')
    async with reviewing(project, User("once")) as reviewer:
        turn = await reviewer.say("/review")
    if any("failed" in line for line in turn.text.splitlines()):
        pytest.skip("cargo does not work here")
    assert ("src/main.rs", 2, "unused_variables") in turn.findings


async def test_a_project_that_configures_ruff_is_reviewed_by_its_own_rules(project: Path, write: Write) -> None:
    write("pyproject.toml", '[tool.ruff.lint]\nselect = ["E501"]\n[tool.ruff]\nline-length = 20\n')
    write("a.py", "import os\nx = 'more than twenty letters'\n")
    async with reviewing(project) as reviewer:
        turn = await reviewer.say("/review")
    assert turn.codes == {"E501"}
    assert not (project / ".ruff_cache").exists()


@pytest.mark.parametrize(
    "settings", ["[tool.ruff]\nline-length = 20\n", '[tool.ruff.lint]\nextend-select = ["E501"]\n']
)
async def test_a_project_that_configures_ruff_without_choosing_rules_is_reviewed_by_ours(
    project: Path, write: Write, settings: str
) -> None:
    ignored = "" if "lint" in settings else "[tool.ruff.lint]\n"
    write("pyproject.toml", f'{settings}{ignored}ignore = ["E711"]\n')
    write("a.py", f"import os\nclass A:\n    x = []\ny = A == None\nfrom b import *\nz = {'1' * 100}\n")
    async with reviewing(project) as reviewer:
        turn = await reviewer.say("/review")
    assert turn.codes == {"F401"} | ({"E501"} if "E501" in settings else set())


async def test_a_type_checker_speaks_only_where_the_project_has_chosen_it(project: Path, write: Write) -> None:
    write("a.py", "len(1)\n")
    async with reviewing(project) as reviewer:
        for settings in ("", "[tool.mypy]\nstrict = true\n"):
            write("pyproject.toml", settings)
            turn = await reviewer.say("/review")
            assert turn.codes == set()
            assert "ty" not in turn.plans[-1]
        write("pyproject.toml", "[tool.ty]\n")
        assert (await reviewer.say("/review")).codes == {"invalid-argument-type"}


# Running them


@pytest.fixture
async def commands() -> AsyncIterator[Commands]:
    commands = Commands()
    yield commands
    await commands.close()


@pytest.mark.usefixtures("nothing_left")
async def test_a_program_is_given_its_input_and_gives_its_output(tmp_path: Path) -> None:
    commands = Commands()
    result = await commands.run(["sh", "-c", "pwd; cat; echo oops >&2; exit 3"], cwd=str(tmp_path), stdin=b"in")
    await commands.close()
    assert result.stdout == f"{tmp_path}\nin".encode()
    assert result.stderr == b"oops\n"
    assert result.code == 3


async def test_words_are_never_read_by_a_shell(commands: Commands, tmp_path: Path) -> None:
    result = await commands.run(["echo", "$HOME; touch x", "`id`"], cwd=str(tmp_path))
    assert result.stdout == b"$HOME; touch x `id`\n"


async def test_a_program_that_takes_too_long_is_ended(commands: Commands, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"sleep took longer than 0\.1 s and was ended"):
        await commands.run(["sleep", "600"], cwd=str(tmp_path), timeout=0.1)


async def test_a_program_dies_with_the_turn_that_needs_it(commands: Commands, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "news")
    running = asyncio.create_task(
        commands.run(["sh", "-c", "echo $$ > news; exec sleep 600"], cwd=str(tmp_path), timeout=60)
    )
    pid = await asyncio.to_thread((tmp_path / "news").read_text)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not Path(f"/proc/{pid.strip()}").exists()


async def test_a_program_that_leaves_something_running_is_not_waited_for(
    commands: Commands, tmp_path: Path
) -> None:
    result = await commands.run(["sh", "-c", "sleep 600 & echo $!"], cwd=str(tmp_path), timeout=30)
    assert not Path(f"/proc/{result.stdout.decode().strip()}").exists()


async def test_a_program_that_prints_without_end_is_kept_within_bounds(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.reviewer.linters.commands.MOST_OUTPUT", 1000)
    result = await commands.run(["head", "-c", "1000000", "/dev/zero"], cwd=str(tmp_path))
    assert len(result.stdout) < 100_000


async def test_a_program_that_is_not_there_is_told_in_one_line(commands: Commands, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no-such-program could not be run"):
        await commands.run(["no-such-program"], cwd=str(tmp_path))
    with pytest.raises(CommandError, match="ls could not be run"):
        await commands.run(["ls"], cwd=str(tmp_path / "missing"))


async def test_secrets_of_the_environment_do_not_reach_a_program(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "hidden-from-linters")
    result = await commands.run(["env"], cwd=str(tmp_path))
    assert b"hidden-from-linters" not in result.stdout


def test_what_two_linters_say_of_one_line_is_told_once() -> None:
    def finding(line: int, code: str, path: str = "a") -> Finding:
        return Finding(path, line, "error", code, "")

    findings = [
        *(finding(1, "B602"), finding(1, "S602"), finding(2, "B602"), finding(1, "B006")),
        *(finding(3, "F821"), finding(3, "unresolved-reference"), finding(4, "unresolved-reference")),
        *(finding(1, "syntax-error", "b"), finding(2, "syntax-error", "b"), finding(2, "invalid-syntax", "b")),
        *(finding(1, "merge-marker", "c"), finding(1, "syntax-error", "c"), finding(9, "todo", "c")),
        *(finding(1, "shell-crlf", "d"), finding(2, "SC1017", "d")),
    ]
    assert [(f.path, f.line, f.code) for f in without_echoes(findings)] == [
        *(("a", 1, "S602"), ("a", 2, "B602"), ("a", 1, "B006"), ("a", 3, "F821"), ("a", 4, "unresolved-reference")),
        *(("b", 1, "syntax-error"), ("c", 1, "merge-marker"), ("c", 9, "todo"), ("d", 1, "shell-crlf")),
    ]


@pytest.mark.usefixtures("nothing_left")
async def test_whenever_a_program_is_given_up_nothing_of_it_is_left(tmp_path: Path) -> None:
    commands = Commands()
    for turns in range(40):  # of the event loop, before it is cancelled
        running = asyncio.create_task(commands.run(["sleep", "600"], cwd=str(tmp_path), stdin=b"x"))
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert (await commands.run(["echo", "still here"], cwd=str(tmp_path))).stdout == b"still here\n"
    await commands.close()


@pytest.mark.parametrize("kind", ["a pipe", "a device", "nested without end", "no table"])
def test_settings_that_are_no_settings_hold_nobody_up(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    match kind:
        case "a pipe":
            os.mkfifo(path)
        case "a device":
            path.symlink_to("/dev/zero")
        case "nested without end":
            path.write_text("tool = " + "[" * 100_000)
        case _:
            path.write_text("tool = 1")
    assert not is_configured(str(tmp_path), ("pyproject.toml", "ruff"))
