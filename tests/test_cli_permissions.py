"""`dragoman permissions check`: what the rules of a file cover, and what they say of a command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

from dragoman.cli import main

RULES = """
[[deny]]
operation = "terminal_execute"
argv = ["terraform", "destroy", "..."]
reason = "never from here"

[[allow]]
operation = "terminal_execute"
argv = ["pytest", "..."]

[[deny]]
operation = ["file_read", "file_write"]
path = "**/*.{pem,crt}"

[[ask]]
operation = "network_access"
host = ["evil.com", "http://localhost:8080"]
expires = 2020-01-01

[[deny]]
operation = "mcp_tool"
server = "github"
tool = "delete_*"
agent = "claude"
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("rules.toml").write_text(RULES)
    return "rules.toml"


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["permissions", "check", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_it_shows_what_each_rule_covers(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, file) == [
        "rules.toml:2 (deny rule 1): deny running terraform destroy and any further arguments",
        "rules.toml:11 (deny rule 2): deny reading or writing **/*.pem, **/*.crt, **/*.{pem,crt}",
        "rules.toml:20 (deny rule 3): deny calling delete_* of github, for the agent claude",
        "rules.toml:15 (ask rule 1): ask visiting evil.com, http://localhost:8080; it has expired",
        "rules.toml:7 (allow rule 1): allow running pytest and further arguments that are known to be harmless",
        "5 rules; deny beats ask beats allow, and the preset decides on everything else",
    ]


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        (["terraform", "destroy", "-auto-approve"], "deny: rules.toml:2 (deny rule 1): never from here"),
        (["terraform", "-chdir=x", "destroy"], "ask: rules.toml:2 (deny rule 1): this may be, or hide, what"),
        (["cd x && terraform destroy"], "ask: rules.toml:2 (deny rule 1): this may be, or hide, what"),
        (["pytest", "-x", "tests"], "allow: rules.toml:7 (allow rule 1)"),
        (["pytest", "--basetemp=/srv"], "no rule: the preset decides, or the user is asked"),
        (["pytest", "/"], "ask: rules.toml:7 (allow rule 1): one of the arguments lies outside"),
        (["--", "ls", "-la"], "no rule"),
    ],
)
def test_it_says_which_rule_decides_on_a_command(
    file: str, capsys: pytest.CaptureFixture[str], command: list[str], verdict: str
) -> None:
    assert said(capsys, file, *command)[-1].startswith(verdict)


def test_it_says_which_rule_decides_on_a_file(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "--read", "keys/a.PEM", file)[-1] == "deny: rules.toml:11 (deny rule 2)"
    assert said(capsys, "--write", "a.txt", file) == ["no rule: the preset decides, or the user is asked"]
    assert said(capsys, "--read", ".env", file)[0].startswith(
        "asked about whatever the rules say: .env is protected"
    )


def test_a_rule_that_may_be_meant_is_shown_as_such(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, file, "env", "terraform", "destroy")[0] == (
        "rules.toml:2 (deny rule 1): may be about this: deny running terraform destroy and any further arguments"
    )


def test_a_file_with_a_rule_that_could_never_match_is_refused_in_a_process_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text('\n\n[[deny]]\noperation = "file_read"\npath = "**.pem"\n')
    command = [sys.executable, "-m", "dragoman", "permissions", "check", "rules.toml"]
    done = subprocess.run(
        command, cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr == (
        'dragoman: rules.toml:3 (deny rule 1): "**.pem" has **.pem, and ** is a whole part; write "**/*.pem"\n'
    )


def test_a_file_that_is_not_there_is_no_file_without_rules(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["permissions", "check", str(tmp_path / "none.toml")]) == 64
    assert "there is no file" in capsys.readouterr().err
