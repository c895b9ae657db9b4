"""Earlier sessions are gone on with, sessions are set as wanted, and files go along."""

import json
import os
import shutil
from pathlib import Path

import pytest
from at_terminal import TESTY, dragoman, peer


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    pages = tmp_path / "pages"
    pages.mkdir()
    return pages


@pytest.fixture
def here(tmp_path: Path) -> Path:
    here = tmp_path / "here"
    here.mkdir()
    return here


@pytest.mark.parametrize("how", [[], ["load"]], ids=["resumed", "loaded"])
def test_the_latest_session_of_a_directory_is_gone_on_with(
    how: list[str], pages: Path, here: Path, tmp_path: Path
) -> None:
    diary = ["run", "--agent", peer("diary", str(pages), *how)]
    assert dragoman(*diary, "older", cwd=here).stdout == "0 before: \n"
    assert dragoman(*diary, "first", cwd=here).stdout == "0 before: \n"
    assert dragoman(*diary, "elsewhere", cwd=tmp_path).stdout == "0 before: \n"
    result = dragoman(*diary, "--continue", "second", cwd=here)
    assert (result.returncode, result.stdout) == (0, "1 before: first\n")  # and what was told again is not shown
    assert "told again" not in result.stderr
    assert dragoman(*diary, "--continue", "third", cwd=here).stdout == "2 before: first, second\n"


def test_a_session_is_gone_on_with_by_its_id(pages: Path, here: Path) -> None:
    diary = ["run", "--agent", peer("diary", str(pages))]
    told = dragoman(*diary, "--json", "first", cwd=here).stdout
    id = json.loads(told.splitlines()[0])["sessionId"]
    dragoman(*diary, "between", cwd=here)
    assert dragoman(*diary, "--session", id, "second", cwd=here).stdout == "1 before: first\n"


def test_a_session_has_the_mode_and_the_options_that_were_wanted(here: Path) -> None:
    wanted = ["--mode", "plan", "--set", "model=large", "--set", "voice=high", "--set", "verbose=on"]
    result = dragoman("run", "--agent", TESTY, *wanted, "settings", cwd=here)
    assert json.loads(result.stdout) == {"mode": "plan", "model": "large", "voice": "high", "verbose": True}


def test_files_go_along_as_the_agent_takes_them(here: Path) -> None:
    (here / "notes.txt").write_text("remember\n")
    (here / "pixel.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (here / "noise.wav").write_bytes(b"RIFF")
    (here / "data.bin").write_bytes(b"\xff\xfe\x00")
    files = [word for name in ("notes.txt", "pixel.png", "noise.wav", "data.bin") for word in ("--file", name)]
    result = dragoman("run", "--agent", TESTY, "--json", *files, "hello", cwd=here)
    events = [json.loads(line) for line in result.stdout.splitlines()]
    said = [
        event["update"]["content"]
        for event in events
        if event["type"] == "update" and event["update"]["sessionUpdate"] == "agent_message_chunk"
    ]
    assert [block["type"] for block in said] == ["text", "resource", "image", "audio", "resource_link"]
    assert said[1]["resource"] == {
        "uri": (here / "notes.txt").as_uri(),
        "text": "remember\n",
        "mimeType": "text/plain",
    }
    assert said[4] == {
        "type": "resource_link",
        "name": "data.bin",
        "uri": (here / "data.bin").as_uri(),
        "mimeType": "application/octet-stream",
        "size": 3,
    }


def test_a_session_works_in_the_directory_it_was_given(here: Path, tmp_path: Path) -> None:
    result = dragoman("run", "--agent", TESTY, "--cwd", "here", "where", cwd=tmp_path)
    assert json.loads(result.stdout) == [str(here)]


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_commands_run_in_a_sandbox_where_that_is_wanted(here: Path, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        os.chown(here, 1000, 1000)  # nothing in a sandbox runs as root
    running = ["run", "--agent", TESTY, "--permissions", "allow-all"]
    prompt = f"run sh -c 'ls {tmp_path}; touch inside'"
    assert "here" in dragoman(*running, prompt, cwd=here).stdout.split()
    (here / "inside").unlink()
    (tmp_path / "outside").touch()
    result = dragoman(*running, "--sandbox", prompt, cwd=here)
    assert "outside" not in result.stdout
    assert "its own process, and what it runs by itself after a yes, are outside" in " ".join(result.stderr.split())
    assert (here / "inside").exists()
