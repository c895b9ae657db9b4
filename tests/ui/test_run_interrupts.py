"""Ctrl-C at a real terminal: once cancels the turn, twice quits."""

import os
import signal
import termios
from pathlib import Path

import pytest
from at_terminal import TESTY, AtTerminal, peer


def test_ctrl_c_cancels_the_turn_which_has_its_last_words(tmp_path: Path) -> None:
    with AtTerminal("run", "--agent", TESTY, "wait", cwd=tmp_path) as run:
        run.see("Waiting.")
        run.press("\x03")
        run.see("again to quit")
        run.see("Stopping.")
        assert run.end() == 130
    assert "Traceback" not in run.screen


def test_ctrl_c_twice_quits_though_the_agent_takes_no_notice(tmp_path: Path) -> None:
    with AtTerminal("run", "--agent", TESTY, "stubborn 600", cwd=tmp_path) as run:
        run.see("Busy.")
        run.press("\x03")
        run.see("again to quit")
        run.press("\x03")
        assert run.end() == 130
    assert "Stopping." not in run.screen
    assert "Traceback" not in run.screen


def test_a_second_ctrl_c_kills_the_agent_and_everything_it_started(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    with AtTerminal("run", "--agent", peer("unruly", str(asked)), "go", cwd=tmp_path) as run:
        before = termios.tcgetattr(run.fd)
        run.see("Started ")
        pids = [int(pid) for pid in run.see(".").split()]
        assert [pid for pid in pids if not is_alive(pid)] == []
        agent, *_, kept, _ = pids
        supervisor = int(Path(f"/proc/{kept}/stat").read_text().rpartition(")")[2].split()[1])
        assert mark_of(supervisor) != mark_of(agent)  # or it would be killed before it could end what it has
        run.see("Press a key:")
        assert termios.tcgetattr(run.fd) != before
        run.press("\x03")
        run.see("again to quit")
        run.press("\x03")
        run.see("killing the agent")
        assert run.end() == 130
        assert termios.tcgetattr(run.fd) == before
    assert [pid for pid in pids if is_alive(pid)] == []
    assert not asked.exists()  # it was given no time for that
    assert "Traceback" not in run.screen


def mark_of(pid: int) -> str:
    limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return next(line for line in limits if line.startswith("Max file locks"))


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended may wait for whoever adopted it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_second_ctrl_c_kills_an_agent_that_does_not_even_start(tmp_path: Path) -> None:
    waiting, asked = tmp_path / "waiting", tmp_path / "asked"
    os.mkfifo(waiting)
    agent = f"sh -c 'trap \"touch {asked}\" TERM; echo $$ > {waiting}; while :; do sleep 1; done'"
    with AtTerminal("run", "--agent", agent, "hello", cwd=tmp_path) as run:
        pid = int(waiting.read_text())
        run.press("\x03")
        run.see("again to kill it")
        run.press("\x03")
        assert run.end() == 130
    assert not asked.exists()
    assert not is_alive(pid)


def test_ctrl_c_quits_at_once_while_the_agent_starts(tmp_path: Path) -> None:
    # It says where it is by a file, for it never speaks.
    waiting = tmp_path / "waiting"
    os.mkfifo(waiting)
    with AtTerminal("run", "--agent", f"sh -c 'echo > {waiting}; sleep 600'", "hello", cwd=tmp_path) as run:
        waiting.read_text()
        run.press("\x03")
        assert run.end() == 130


def test_a_command_the_agent_runs_ends_with_the_run(tmp_path: Path) -> None:
    with AtTerminal(
        "run", "--agent", TESTY, "--permissions", "allow-all", "run sh -c 'echo $$; exec sleep 600'", cwd=tmp_path
    ) as run:
        run.see("│ ")
        pid = int(run.see("\n"))
        os.kill(pid, 0)
        run.press("\x03")
        assert run.end() == 130
    assert not Path(f"/proc/{pid}").exists()


STOPPING = "run sh -c 'kill -STOP $PPID $(ps -o ppid= -p $PPID); echo $$; exec sleep 600'"  # those who watch it


@pytest.mark.parametrize("way", ["--timeout", "Ctrl-C", "SIGTERM"])
def test_a_command_that_stops_those_who_watch_it_ends_with_the_run(way: str, tmp_path: Path) -> None:
    limit = ["--timeout", "6"] if way == "--timeout" else []
    command = ["run", "--agent", TESTY, "--permissions", "allow-all", *limit, STOPPING]
    with AtTerminal(*command, cwd=tmp_path) as run:
        run.see("│ ")
        pid = int(run.see("\n"))
        if way == "Ctrl-C":
            run.press("\x03")
        elif way == "SIGTERM":
            os.kill(run.process.pid, signal.SIGTERM)
        assert run.end() == (3 if limit else 130)
    assert not Path(f"/proc/{pid}").exists()


def test_nothing_more_is_asked_of_somebody_who_has_cancelled(tmp_path: Path) -> None:
    with AtTerminal("run", "--agent", peer("pushy"), "go", cwd=tmp_path) as run:
        run.see("Press a key:")
        run.press("\x03")
        assert run.end() == 130
    assert run.screen.count("?") == 1
    assert not (tmp_path / "sneaked.txt").exists()
