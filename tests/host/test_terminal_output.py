"""What commands print, how they end, and that nothing of them is left."""

import asyncio
import contextlib
import os
import re
import shlex
import shutil
import signal
import sys
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torture.host_terminals import KINDS, Pulse, flood, kill_hosts, spawn_and_end

from dragoman.errors import InvalidParams, ResourceNotFound
from dragoman.host.terminals import Terminal, TerminalLimits, Terminals, children, execution
from dragoman.host.terminals.output import PIECE, Tail

pytestmark = pytest.mark.usefixtures("nothing_left")

MEGABYTE = 1024 * 1024


@pytest.fixture
async def terminals() -> AsyncIterator[Terminals]:
    async with Terminals(limits=TerminalLimits(grace=0.2)) as opened, asyncio.timeout(20):
        yield opened


async def run(terminals: Terminals, command: str, *args: str, cwd: Path | str = "/", **how: object) -> Terminal:
    """A command that has ended."""
    terminal = await terminals.create("s", execution(command, args, cwd=str(cwd)), **how)  # type: ignore[arg-type]
    await terminal.wait()
    return terminal


def python(code: str) -> tuple[str, ...]:
    return sys.executable, "-I", "-S", "-c", code


# What it prints


async def test_output_is_there_when_the_command_has_ended(terminals: Terminals) -> None:
    for _ in range(20):
        terminal = await run(terminals, "printf out; printf err >&2")
        assert terminal.output().output == "outerr"


async def test_output_can_be_read_while_the_command_runs(terminals: Terminals) -> None:
    terminal = await terminals.create("s", execution("echo begun; sleep 100", cwd="/"))
    async for chunk in terminal.follow():
        assert chunk.text == "begun\n"
        break
    answer = terminal.output()
    assert (answer.output, answer.truncated, answer.exit_status) == ("begun\n", False, None)


TEXTS = {"one": "abcdefg", "two": "äöüßéñ", "three": "日本語文字", "four": "😀🎉🚀", "all": "aé日😀"}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_output_is_kept_from_the_end_and_cut_between_characters(text: str) -> None:
    printed = text * 30
    async with Terminals(limits=TerminalLimits(per_session=71)) as terminals, asyncio.timeout(20):
        operation = execution("printf", ["%s", printed], cwd="/")
        created = [await terminals.create("s", operation, output_byte_limit=limit) for limit in range(71)]
        for limit, terminal in enumerate(created):
            await terminal.wait()
            kept = terminal.output().output
            assert kept == printed.encode()[len(printed.encode()) - limit :].decode(errors="ignore")
            assert terminal.output().truncated


async def test_output_within_the_limit_is_whole(terminals: Terminals) -> None:
    answer = (await run(terminals, "printf", "%s", "x" * 100, output_byte_limit=100)).output()
    assert (answer.output, answer.truncated) == ("x" * 100, False)


@given(st.lists(st.text(max_size=30), max_size=12), st.integers(0, 70))
def test_however_it_is_cut_the_tail_is_the_longest_that_fits(pieces: list[str], limit: int) -> None:
    tail, whole = Tail(limit), "".join(pieces)
    for piece in pieces:
        tail.add(piece.encode())
    suffixes = (whole[start:] for start in range(len(whole) + 1))
    assert str(tail) == next(suffix for suffix in suffixes if len(suffix.encode()) <= limit)
    assert tail.truncated == (str(tail) != whole)


@pytest.mark.parametrize("size", [100, PIECE])
def test_a_full_tail_drops_what_came_first_and_moves_nothing(size: int) -> None:
    """Moving what is kept with each piece takes the square of what is printed."""
    piece, tail = b"x" * size, Tail(4 * MEGABYTE)
    tracemalloc.start()
    try:
        for _ in range(8 * MEGABYTE // size):
            tail.add(piece)
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(MEGABYTE // size):
            tail.add(piece)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert before < 5 * MEGABYTE
    assert peak < before + 4 * PIECE


async def test_bytes_that_are_no_text_become_replacement_characters(terminals: Terminals) -> None:
    assert (await run(terminals, r"printf 'a\377b\303'")).output().output == "a\ufffdb\ufffd"


async def test_a_character_that_comes_in_two_pieces_stays_whole(terminals: Terminals, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    command = rf"printf '<\303'; read x < {shlex.quote(str(tmp_path / 'go'))}; printf '\251>'"
    terminal = await terminals.create("s", execution(command, cwd="/"))
    async for chunk in terminal.follow():
        if chunk.text == "<":
            (tmp_path / "go").write_text("go\n")
    assert terminal.output().output == "<é>"


async def test_an_agent_can_ask_for_more_output_but_not_for_any_amount() -> None:
    limits = TerminalLimits(output=10, output_most=20)
    async with Terminals(limits=limits) as terminals:
        for asked, kept in ((None, 10), (5, 5), (20, 20), (2**64, 20)):
            terminal = await run(terminals, "printf", "%s", "x" * 100, output_byte_limit=asked)
            assert len(terminal.output().output) == kept


async def test_a_follower_hears_everything_and_then_the_end(terminals: Terminals) -> None:
    terminal = await terminals.create("s", execution("seq", ["100000"], cwd="/"), output_byte_limit=10)
    heard = "".join([chunk.text async for chunk in terminal.follow()])
    assert heard.endswith("".join(f"{n}\n" for n in range(99_000, 100_001)))
    assert terminal.status is not None


async def test_stdout_and_stderr_can_be_told_apart(terminals: Terminals) -> None:
    operation = execution("echo out; echo err >&2", cwd="/")
    terminal = await terminals.create("s", operation, apart=True)
    heard = {"stdout": "", "stderr": ""}
    async for chunk in terminal.follow():
        heard[chunk.stream] += chunk.text
    assert heard == {"stdout": "out\n", "stderr": "err\n"}
    assert sorted(terminal.output().output.split()) == ["err", "out"]


async def test_a_slow_follower_slows_the_command_and_loses_nothing(terminals: Terminals) -> None:
    code = "import os\nfor i in range(300_000): os.write(1, b'%09d\\n' % i)"
    program, *args = python(code)
    terminal = await terminals.create("s", execution(program, args, cwd="/"))
    following = terminal.follow()
    first = await anext(following)
    lines = first.text + "".join([chunk.text async for chunk in following])
    assert lines == "".join(f"{i:09}\n" for i in range(300_000))


async def test_a_follower_that_leaves_holds_nobody_up(terminals: Terminals) -> None:
    terminal = await terminals.create("s", execution("head", ["-c", "3000000", "/dev/zero"], cwd="/"))
    async for _ in terminal.follow():
        break
    assert (await terminal.wait()) is not None


async def test_a_flood_of_output_costs_its_limit_and_starves_nobody(tmp_path: Path) -> None:
    speed, kept, memory = await flood(tmp_path, seconds=1, limit=MEGABYTE)
    assert MEGABYTE - 4 < kept <= MEGABYTE
    assert memory < 8 * MEGABYTE
    assert speed > 0.5


# How it ends


async def test_an_exit_code_is_reported(terminals: Terminals) -> None:
    status = (await run(terminals, "exit 7")).status
    assert status and (status.exit_code, status.signal) == (7, None)


async def test_a_signal_is_reported_by_name(terminals: Terminals) -> None:
    status = (await run(terminals, "kill -USR1 $$")).status
    assert status and (status.exit_code, status.signal) == (None, "SIGUSR1")


async def test_a_background_process_does_not_hold_up_the_exit(terminals: Terminals) -> None:
    async with asyncio.timeout(2):
        status = (await run(terminals, "sleep 100 & exit 3")).status
    assert status and status.exit_code == 3


async def test_what_a_background_process_prints_later_is_heard(terminals: Terminals, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    os.mkfifo(tmp_path / "said")
    go, said = (shlex.quote(str(tmp_path / name)) for name in ("go", "said"))
    terminal = await run(terminals, f"(read x < {go}; echo late; echo > {said}) & echo early")
    assert terminal.output().output == "early\n"
    (tmp_path / "go").write_text("go\n")
    await asyncio.to_thread((tmp_path / "said").read_text)
    await terminal.kill()
    assert terminal.output().output == "early\nlate\n"


async def test_everybody_who_waits_is_answered(terminals: Terminals, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    terminal = await terminals.create("s", execution(f"read x < {shlex.quote(str(tmp_path / 'go'))}", cwd="/"))
    waiting = [asyncio.create_task(terminal.wait()) for _ in range(50)]
    impatient = await terminal.wait(timeout=0.01)
    waiting[7].cancel()
    (tmp_path / "go").write_text("go\n")
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert impatient is None
    assert isinstance(answers.pop(7), asyncio.CancelledError)
    assert {answer.exit_code for answer in answers} == {0}  # type: ignore[union-attr]


async def test_a_killed_command_can_still_be_read(terminals: Terminals) -> None:
    terminal = await terminals.create("s", execution("echo said; sleep 100", cwd="/"))
    async for _ in terminal.follow():
        break
    await terminal.kill()
    answer = terminals.find("s", terminal.id).output()
    assert answer.output == "said\n"
    assert answer.exit_status and answer.exit_status.signal == "SIGTERM"
    await terminal.kill()  # twice is no error


async def test_a_command_that_does_not_go_when_asked_is_killed(terminals: Terminals) -> None:
    terminal = await terminals.create("s", execution("trap '' TERM; echo deaf; while :; do sleep 9; done", cwd="/"))
    async for _ in terminal.follow():
        break
    await terminal.kill()
    assert terminal.status and terminal.status.signal == "SIGKILL"


async def test_a_command_can_be_killed_at_once() -> None:
    async with Terminals(limits=TerminalLimits(grace=1000)) as terminals, asyncio.timeout(10):
        terminal = await terminals.create("s", execution("trap '' TERM; echo deaf; sleep 999", cwd="/"))
        async for _ in terminal.follow():
            break
        await terminal.kill(force=True)
        assert terminal.status and terminal.status.signal == "SIGKILL"


@pytest.mark.parametrize("name", ["SIGINT", "INT", "int", signal.SIGINT])
async def test_a_command_can_be_sent_a_signal_of_choice(terminals: Terminals, name: str | int) -> None:
    terminal = await terminals.create(
        "s", execution("trap 'exit 5' INT; echo set; while :; do sleep 0.1; done", cwd="/")
    )
    async for _ in terminal.follow():
        break
    await terminal.kill(name)
    status = await terminal.wait()
    assert status and status.exit_code == 5


@pytest.mark.parametrize("name", ["SIGNONE", "", "9x", 0, 999, -1])
async def test_a_signal_that_does_not_exist_is_refused(terminals: Terminals, name: str | int) -> None:
    terminal = await terminals.create("s", execution("sleep", ["100"], cwd="/"))
    with pytest.raises(InvalidParams) as refused:
        await terminal.kill(name)
    assert refused.value.data == {"kind": "unknown_signal"}
    assert terminal.status is None


async def test_a_command_whose_time_is_up_is_ended(terminals: Terminals) -> None:
    terminal = await terminals.create("s", execution("sleep", ["100"], cwd="/"), timeout=0.05)
    status = await terminal.wait()
    assert status and status.signal == "SIGTERM"
    assert terminal.timed_out


async def test_a_host_can_limit_the_time_of_all_commands() -> None:
    async with Terminals(limits=TerminalLimits(wall_time=0.05)) as terminals, asyncio.timeout(10):
        terminal = await terminals.create("s", execution("sleep", ["100"], cwd="/"), timeout=60)
        await terminal.wait()
        assert terminal.timed_out


async def test_a_command_that_ends_in_time_was_not_timed_out(terminals: Terminals) -> None:
    terminal = await run(terminals, "true", timeout=60)
    assert not terminal.timed_out


async def test_a_released_terminal_is_gone_at_once(terminals: Terminals) -> None:
    terminal = await terminals.create("s", execution("trap '' TERM; sleep 100", cwd="/"))
    waiting = asyncio.create_task(terminal.wait())
    releasing = asyncio.create_task(terminals.release("s", terminal.id))
    await asyncio.sleep(0)
    with pytest.raises(ResourceNotFound):
        terminals.find("s", terminal.id)
    await releasing
    status = await waiting
    assert status and status.signal
    with pytest.raises(ResourceNotFound):
        await terminals.release("s", terminal.id)


async def test_the_process_id_is_that_of_the_command(terminals: Terminals) -> None:
    terminal = await run(terminals, "echo $$")
    assert terminal.output().output == f"{terminal.pid}\n"


async def test_a_start_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    pulse = Pulse(tmp_path)
    async with pulse.felt() as felt, Terminals() as terminals, asyncio.timeout(20):
        for steps in range(8):
            creating = asyncio.create_task(
                terminals.create("s", execution(pulse.command("deaf").replace("printf", ": "), cwd="/"))
            )
            for _ in range(steps):
                await asyncio.sleep(0)
            creating.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await creating
        await terminals.close()
        await felt.begun(0)
        await felt.ended()


async def test_a_session_closed_during_a_start_gets_no_terminal(terminals: Terminals) -> None:
    creating = asyncio.create_task(terminals.create("s", execution("sleep", ["100"], cwd="/")))
    await asyncio.sleep(0)
    await terminals.close("s")
    with pytest.raises(InvalidParams, match="closed"):
        await creating


# Nothing is left


async def test_nothing_outlives_its_end_however_it_comes(tmp_path: Path) -> None:
    await spawn_and_end(tmp_path, list(KINDS), cycles=30)


async def test_nothing_outlives_a_host_that_is_killed(tmp_path: Path) -> None:
    await kill_hosts(tmp_path, list(KINDS), cycles=2)


async def test_nothing_outlives_a_supervisor_that_is_killed(terminals: Terminals, tmp_path: Path) -> None:
    pulse = Pulse(tmp_path)
    async with pulse.felt() as felt:
        terminal = await terminals.create("s", execution(pulse.command("daemon"), cwd="/"))
        await felt.begun(1)
        status = Path(f"/proc/{terminal.pid}/status").read_text()
        os.kill(int(re.search(r"PPid:\s*(\d+)", status)[1]), signal.SIGKILL)  # type: ignore[index]
        await felt.ended()
    ended = await terminal.wait()
    assert ended and ended.signal == "SIGKILL"
    assert (await run(terminals, "echo still here")).output().output == "still here\n"


async def test_a_keeper_that_is_killed_is_replaced(terminals: Terminals) -> None:
    first = await run(terminals, "cat /proc/$PPID/status")
    keeper = int(re.search(r"PPid:\s*(\d+)", first.output().output)[1])  # type: ignore[index]
    running = await terminals.create("s", execution("echo up; sleep 100", cwd="/"))
    os.kill(keeper, signal.SIGKILL)
    assert (await run(terminals, "echo again")).output().output == "again\n"
    await running.kill()
    assert running.status and running.status.signal == "SIGTERM"


def changed_keeper(directory: Path, changes: dict[str, str]) -> Path:
    """A copy of the keeper's program with other words in it, and without patience."""
    program = directory / "keeper"
    shutil.copytree(children.PROGRAM, program, ignore=shutil.ignore_patterns("__pycache__"))
    for old, new in {**changes, "PATIENCE = 5.0": "PATIENCE = 0.1"}.items():
        found = [path for path in program.iterdir() if old in path.read_text()]
        assert found
        for path in found:
            path.write_text(path.read_text().replace(old, new))
    return program


async def test_what_cannot_be_ended_is_reported_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    changed = changed_keeper(
        tmp_path, {"signal.SIGKILL)": "0)", "cgroup.kill": "none"}
    )  # as if they were another user's
    monkeypatch.setattr(children, "PROGRAM", changed)
    async with Terminals() as terminals, asyncio.timeout(10):
        terminal = await terminals.create("s", execution("trap '' TERM; echo up; sleep 100; :", cwd="/"))
        async for _ in terminal.follow():
            break
        await terminal.kill(force=True)
        assert f"terminal {terminal.id}: processes [{terminal.pid}" in caplog.text
        os.killpg(terminal.pid, signal.SIGKILL)


async def test_where_nobody_adopts_orphans_the_process_group_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = changed_keeper(tmp_path, {'LINUX = sys.platform == "linux"': "LINUX = False"})
    monkeypatch.setattr(children, "PROGRAM", changed)
    await spawn_and_end(tmp_path, ["clean", "deaf", "chain", "background"], cycles=12)
