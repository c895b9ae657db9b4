"""Completion in the real shells: each is given the script, a line that was begun, and asked what it would offer."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from at_terminal import AtTerminal, dragoman
from patience import PATIENCE

BIN = Path(sys.executable).parent


def offered(shell: str, line: str, cwd: Path) -> set[str]:
    """What a shell offers behind a line."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = dragoman("completion", shell).stdout
    (cwd / "script").write_text(script)
    words = line.split(" ")
    programs = {
        "bash": f"source ./script; COMP_WORDS=({' '.join(map(repr, words))}); COMP_CWORD={len(words) - 1}; "
        "_dragoman 2>/dev/null; printf '%s\\n' \"${COMPREPLY[@]}\"",
        "fish": f"source ./script; complete -C '{line}'",
    }
    env = {
        "PATH": f"{BIN}:/usr/bin:/bin",
        "HOME": str(cwd),
        "XDG_STATE_HOME": str(cwd),
        "XDG_CONFIG_HOME": str(cwd),
    }
    done = subprocess.run(
        [shell, "-c", programs[shell]], cwd=cwd, env=env, capture_output=True, text=True, timeout=PATIENCE
    )
    return {word.partition("\t")[0] for word in done.stdout.splitlines() if word}


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_commands_options_agents_and_files_are_completed(shell: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    (tmp_path / "folder").mkdir()
    assert offered(shell, "dragoman se", tmp_path) == {"serve", "sessions", "setup"}
    assert offered(shell, "dragoman gateway tokens re", tmp_path) == {"revoke"}
    assert offered(shell, "dragoman run --per", tmp_path) == {"--permissions"}
    assert offered(shell, "dragoman run --permissions allow-", tmp_path) == {
        "allow-reads",
        "allow-edits",
        "allow-all",
    }
    assert offered(shell, "dragoman run --agent rev", tmp_path) == {"reviewer"}
    assert offered(shell, "dragoman agents show cla", tmp_path) == {"claude", "claude-npm"}
    assert offered(shell, "dragoman run --file no", tmp_path) == {"notes.txt"}
    assert {each.rstrip("/") for each in offered(shell, "dragoman run --cwd fo", tmp_path)} == {"folder"}


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes_at_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "script").write_text(dragoman("completion", "zsh").stdout)
    (tmp_path / ".zshrc").write_text(
        "autoload -Uz compinit && compinit -u\nsource ./script\nPS1='ready> '\nunsetopt zle_bracketed_paste\n"
    )
    env = {"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(tmp_path), "ZDOTDIR": str(tmp_path), "TERM": "dumb"}
    with AtTerminal("-i", cwd=tmp_path, env=env, program=["zsh"]) as shell:
        shell.see("ready> ")
        shell.press("dragoman run --permissions allow-r\t")
        shell.see("allow-reads")
        shell.press("\x15dragoman run --agent revie\t")
        shell.see("reviewer")
        shell.press("\x15dragoman se\t")
        assert "host agents for remote clients" in shell.see("sessions") + shell.see("setup")
        shell.press("\x15exit\r")
        shell.end()


def test_a_shell_nobody_knows_is_refused() -> None:
    result = dragoman("completion", "bsh")
    assert result.returncode == 64
    assert result.stderr == "dragoman: there is no shell 'bsh'; did you mean 'bash'?\n"
