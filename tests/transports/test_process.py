"""An agent's process as a wire: how it starts, what it inherits, what it says last, and that it always ends."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from torture.by_hand import resident

from dragoman import AgentExited, AgentStartError, connect
from dragoman.transports import process
from dragoman.transports.process import STDERR_KEPT, STDERR_SHOWN, spawn

pytestmark = pytest.mark.usefixtures("nothing_left")


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "PATIENCE", 0.2)


def python(program: str, *args: str) -> list[str]:
    return [sys.executable, "-IS", "-c", program, *args]


# Answers `initialize`, and then does what it is told to with each further line.
ANSWERING = """
import json, os, signal, subprocess, sys, time
def answer(line, result):
    os.write(1, json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": result}).encode() + b"\\n")
answer(sys.stdin.readline(), {"protocolVersion": 1})
"""


# Starting (T27)


@pytest.fixture
def not_executable(tmp_path: Path) -> str:
    (tmp_path / "agent").write_text("#!/bin/sh\n")
    return str(tmp_path / "agent")


@pytest.fixture
def wrong_format(tmp_path: Path) -> str:
    (tmp_path / "agent").write_bytes(b"\x00\x01\x02 this is no program")
    (tmp_path / "agent").chmod(0o755)
    return str(tmp_path / "agent")


async def failure_of(command: str | list[str], cwd: str | None = None, **options: float) -> AgentStartError:
    started = time.monotonic()
    with pytest.raises(AgentStartError) as caught:
        async with connect(command, cwd=cwd, **options):
            pass
    assert time.monotonic() - started < 1.5
    assert str(caught.value).splitlines()[0].strip()
    return caught.value


@pytest.mark.parametrize("command", ["", "   ", [], [""], "''"])
async def test_no_command_is_no_agent(command: str | list[str]) -> None:
    await failure_of(command)


async def test_a_program_that_is_not_there_is_named() -> None:
    error = await failure_of("nobody-has-this-agent --acp")
    assert str(error) == "cannot start 'nobody-has-this-agent': no such file or directory: nobody-has-this-agent"


async def test_a_directory_that_is_not_there_is_named() -> None:
    error = await failure_of(python(ANSWERING), cwd="/nobody/has/this")
    assert "no such file or directory: /nobody/has/this" in str(error)


async def test_a_file_that_cannot_be_run_is_no_agent(not_executable: str) -> None:
    assert "Permission denied" in str(await failure_of([not_executable]))


async def test_a_directory_is_no_agent(tmp_path: Path) -> None:
    assert str(await failure_of([str(tmp_path)])).startswith("cannot start ")


async def test_a_file_that_is_no_program_is_no_agent(wrong_format: str) -> None:
    assert "Exec format error" in str(await failure_of([wrong_format]))


@pytest.mark.parametrize("command", ["agent 'unclosed", 'agent "unclosed', "agent \\"])
async def test_a_command_nobody_can_read_is_quoted_back(command: str) -> None:
    assert "cannot read the command" in str(await failure_of(command))


async def test_an_argument_no_process_can_have_is_an_error_of_the_start() -> None:
    assert "null byte" in str(await failure_of([sys.executable, "a\0b"]))


async def test_a_url_nobody_can_reach_is_an_error_of_the_start() -> None:
    assert "gopher://" in str(await failure_of("gopher://example.org"))


async def test_an_agent_that_ends_at_once_is_quoted() -> None:
    error = await failure_of(python("import sys; sys.exit('no API key: set KEY first')"))
    assert str(error).splitlines()[0].startswith("the agent exited with status 1 before it answered initialize")
    assert (error.status, error.stderr.strip()) == (1, "no API key: set KEY first")


async def test_an_agent_that_ends_without_a_word_is_an_error_too() -> None:
    error = await failure_of(python(""))
    assert str(error) == "the agent exited with status 0 before it answered initialize"
    assert (error.status, error.stderr) == (0, "")


async def test_an_agent_killed_before_it_answers_is_an_error_too() -> None:
    error = await failure_of(python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)"))
    assert error.status == -signal.SIGKILL
    assert "signal 9" in str(error)


async def test_an_agent_that_hangs_up_before_it_answers_is_an_error_too(short_patience: None) -> None:
    error = await failure_of(python("import os, time; os.close(1); time.sleep(60)"))
    assert "before it answered initialize" in str(error)


async def test_an_agent_that_never_answers_is_given_up_with_its_last_words() -> None:
    thinking = python("import sys; print('thinking', file=sys.stderr, flush=True); sys.stdin.read()")
    error = await failure_of(thinking, start_timeout=0.3)
    assert "initialize was not answered in 0.3 s; its stderr ended with:\nthinking" in str(error)


@pytest.mark.usefixtures("short_patience")
async def test_an_agent_that_never_even_reads_is_given_up() -> None:
    await failure_of(python("import time; time.sleep(60)"), start_timeout=0.3)


async def test_an_agent_that_says_something_else_than_an_answer_is_an_error() -> None:
    error = await failure_of(python("print('Welcome to agent 1.0!')"))
    assert "exited with status 0" in str(error)


@pytest.mark.usefixtures("short_patience")
async def test_a_cancelled_start_leaves_no_process() -> None:
    async def start() -> None:
        async with connect(python("import sys; sys.stdin.readline(); sys.stdin.read()")):
            raise AssertionError

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await start()


# What it inherits (T25)


async def test_a_child_has_three_descriptors_and_no_more() -> None:
    read_fd, write_fd = os.pipe()
    os.set_inheritable(read_fd, True)
    listing = "import os, sys; os.write(2, ' '.join(sorted(os.listdir('/proc/self/fd'))).encode())"
    for _ in range(3):
        transport = await spawn(python(listing))
        transport.listen(lambda frames: None, lambda: None)
        exited = await transport.why_ended()
        await transport.close()
        assert isinstance(exited, AgentExited)
        assert exited.stderr.split()[:3] == ["0", "1", "2"]
        assert len(exited.stderr.split()) == 4, "the fourth is the one that reads the directory"
    os.close(read_fd)
    os.close(write_fd)


async def test_a_child_has_a_group_of_its_own_and_its_signals_are_not_blocked() -> None:
    program = """
import os, signal, sys
print(os.getpgid(0) == os.getpid() == os.getsid(0), signal.pthread_sigmask(0, []), file=sys.stderr)
"""
    transport = await spawn(python(program))
    transport.listen(lambda frames: None, lambda: None)
    exited = await transport.why_ended()
    await transport.close()
    assert isinstance(exited, AgentExited)
    assert exited.stderr.strip() == "True set()"


async def test_directory_and_environment_are_those_given(tmp_path: Path) -> None:
    program = "import os, sys; print(os.getcwd(), sorted(os.environ), file=sys.stderr)"
    transport = await spawn(python(program), cwd=tmp_path, env={"ONLY": "this"})
    transport.listen(lambda frames: None, lambda: None)
    exited = await transport.why_ended()
    await transport.close()
    assert isinstance(exited, AgentExited)
    assert exited.stderr.startswith(str(tmp_path))
    assert "ONLY" in exited.stderr
    assert "HOME" not in exited.stderr


# Its stderr (T23)


async def test_a_child_that_floods_its_stderr_is_answered_and_remembered() -> None:
    """Two megabytes before the first answer: with a pipe nobody drains, both sides would wait for ever."""
    flood = """
for n in range(20_000):
    os.write(2, b"%099d\\n" % n)
line = sys.stdin.readline()
answer(line, {"sessionId": "s1"})
sys.stdin.readline()
os.write(2, b"last words\\n")
os._exit(3)
"""
    before = resident()
    async with connect(python(ANSWERING + flood)) as client:
        async with asyncio.timeout(10):
            session = await client.new_session()
            with pytest.raises(AgentExited) as caught:
                await session.prompt("go")
    assert caught.value.status == 3
    assert caught.value.stderr.endswith(f"{19_999:099}\nlast words\n")
    assert len(caught.value.stderr) <= STDERR_SHOWN
    assert resident() - before < 8 * 1024 * 1024
    assert STDERR_KEPT == 64 * 1024


async def test_of_what_a_child_writes_to_stderr_only_the_end_is_kept() -> None:
    transport = await spawn(python("import os\nfor _ in range(16): os.write(2, b'x' * 65536)\nos.write(2, b'end')"))
    transport.listen(lambda frames: None, lambda: None)
    await transport.why_ended()
    assert transport._stderr.endswith(b"xend")
    assert len(transport._stderr) == STDERR_KEPT


async def test_what_a_child_writes_to_stderr_can_be_watched() -> None:
    seen: list[bytes] = []
    writes = "import os; os.write(2, b'one'); os.write(2, b'\\xfftwo')"
    transport = await spawn(python(writes), on_stderr=seen.append)
    transport.listen(lambda frames: None, lambda: None)
    exited = await transport.why_ended()
    await transport.close()
    assert b"".join(seen) == b"one\xfftwo"
    assert isinstance(exited, AgentExited)
    assert exited.stderr == "one\ufffdtwo"


async def test_what_a_child_writes_before_anybody_has_its_wire_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, heard, seen = asyncio.get_running_loop(), asyncio.Event(), list[bytes]()
    connect_read_pipe = loop.connect_read_pipe

    def hear(data: bytes) -> None:
        seen.append(data)
        heard.set()

    async def connect_late(protocol: Any, pipe: Any) -> Any:
        connected = await connect_read_pipe(protocol, pipe)
        if isinstance(connected[1], process._Stderr):
            await heard.wait()
        return connected

    monkeypatch.setattr(loop, "connect_read_pipe", connect_late)
    async with asyncio.timeout(60):
        transport = await spawn(python("import os; os.write(2, b'early')"), on_stderr=hear)
    await transport.close()
    assert b"".join(seen) == b"early"


# Its end


class Lifeline:
    """A named pipe that a process and its children hold open; its end is theirs."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "lifeline")
        os.mkfifo(self.path)
        self._fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)

    async def read(self) -> bytes:
        """What was written to it, and an end only when everybody is gone."""
        readable = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._fd, readable.set)
        try:
            async with asyncio.timeout(10):
                await readable.wait()
        finally:
            loop.remove_reader(self._fd)
        return os.read(self._fd, 1000)

    async def cut(self) -> None:
        while await self.read():
            pass
        os.close(self._fd)


HOLDING = "line = os.open(sys.argv[1], os.O_WRONLY); os.write(line, b'alive')\n"


@pytest.mark.usefixtures("short_patience")
async def test_a_child_that_ignores_everything_is_killed(tmp_path: Path) -> None:
    ignoring = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
while True:
    time.sleep(60)
"""
    lifeline = Lifeline(tmp_path)
    async with connect(python(ANSWERING + HOLDING + ignoring, lifeline.path)) as client:
        assert await lifeline.read() == b"alive"
        transport = client.connection._transport._inner  # type: ignore[attr-defined]
    await lifeline.cut()
    assert transport.status == -signal.SIGKILL  # type: ignore[attr-defined]


@pytest.mark.usefixtures("short_patience")
async def test_a_child_that_ignores_the_end_of_its_input_is_asked_to_go(tmp_path: Path) -> None:
    asked = """
def leave(*_):
    os.write(line, b"asked")
    os._exit(7)
signal.signal(signal.SIGTERM, leave)
while True:
    time.sleep(60)
"""
    lifeline = Lifeline(tmp_path)
    async with connect(python(ANSWERING + HOLDING + asked, lifeline.path)) as client:
        assert await lifeline.read() == b"alive"
        transport = client.connection._transport._inner  # type: ignore[attr-defined]
    assert await lifeline.read() == b"asked"
    await lifeline.cut()
    assert transport.status == 7  # type: ignore[attr-defined]


async def test_a_child_that_ends_with_its_input_is_given_the_time() -> None:
    async with connect(python(ANSWERING + "sys.stdin.read(); time.sleep(0.3); os._exit(5)")) as client:
        transport = client.connection._transport._inner  # type: ignore[attr-defined]
    assert transport.status == 5  # type: ignore[attr-defined]


@pytest.mark.usefixtures("short_patience")
@pytest.mark.parametrize("ends", ["sys.stdin.read()", "time.sleep(60)", "os._exit(0)"])
async def test_its_children_end_with_it(tmp_path: Path, ends: str) -> None:
    """As with `npx`: the wrapper goes, and what it had started has to go too."""
    wrapper = """
os.set_inheritable(line, True)
sleep = [sys.executable, "-IS", "-c", "import time; time.sleep(60)"]
run = f"import subprocess; subprocess.run({sleep!r}, close_fds=False)"
subprocess.Popen([sys.executable, "-IS", "-c", run], close_fds=False)
"""
    lifeline = Lifeline(tmp_path)
    async with connect(python(ANSWERING + HOLDING + wrapper + ends, lifeline.path)):
        assert await lifeline.read() == b"alive"
    await lifeline.cut()


@pytest.mark.usefixtures("short_patience")
async def test_a_child_that_dies_is_noticed_though_its_own_child_holds_the_wire_open() -> None:
    program = """
line = sys.stdin.readline()
subprocess.Popen([sys.executable, "-IS", "-c", "import time; time.sleep(60)"])
answer(line, {"sessionId": "s1"})
sys.stdin.readline()
print("last words", file=sys.stderr, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    async with connect(python(ANSWERING + program)) as client:
        session = await client.new_session()
        started = time.monotonic()
        with pytest.raises(AgentExited) as caught:
            async with asyncio.timeout(5):
                await session.prompt("go")
        assert time.monotonic() - started < 1
        assert (caught.value.status, caught.value.stderr) == (-signal.SIGKILL, "last words\n")


async def test_a_child_dies_with_us_even_when_we_are_killed(tmp_path: Path) -> None:
    ours = """
import asyncio, sys
from dragoman import connect
async def main():
    async with connect(sys.argv[1:]):
        await asyncio.Event().wait()
asyncio.run(main())
"""
    lifeline = Lifeline(tmp_path)
    agent = python(
        ANSWERING + HOLDING + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)", lifeline.path
    )
    parent = subprocess.Popen([sys.executable, "-c", ours, *agent])
    assert await lifeline.read() == b"alive"
    parent.kill()
    parent.wait(10)
    await lifeline.cut()


@pytest.mark.parametrize("way", ["return", "raise", "cancel"])
async def test_however_the_block_is_left_the_child_ends(tmp_path: Path, way: str) -> None:
    lifeline = Lifeline(tmp_path)

    async def visit() -> None:
        async with connect(python(ANSWERING + HOLDING + "sys.stdin.read()", lifeline.path)):
            assert await lifeline.read() == b"alive"
            if way == "raise":
                raise KeyError(way)
            if way == "cancel":
                asyncio.current_task().cancel()  # type: ignore[union-attr]
                await asyncio.sleep(0)

    visiting = asyncio.create_task(visit())
    (outcome,) = await asyncio.gather(visiting, return_exceptions=True)
    assert type(outcome) is {"return": type(None), "raise": KeyError, "cancel": asyncio.CancelledError}[way]
    await lifeline.cut()


async def test_many_children_come_and_go_and_leave_nothing() -> None:
    """Also no pidfd, no pipe, no zombie: the fixture counts."""
    for _ in range(5):
        async with asyncio.TaskGroup() as group:
            for _ in range(4):
                group.create_task(_visit())


async def _visit() -> None:
    async with connect(
        python(ANSWERING + "answer(sys.stdin.readline(), {'sessionId': 's1'}); sys.stdin.read()")
    ) as client:
        await client.new_session()


async def test_a_child_that_closes_its_output_but_lives_has_hung_up() -> None:
    program = "sys.stdin.readline(); os.close(1); sys.stdin.read()"
    async with connect(python(ANSWERING + program)) as client:
        with pytest.raises(AgentExited) as caught:
            async with asyncio.timeout(5):
                await client.new_session()
        assert caught.value.status is None
        assert "hung up" in str(caught.value)


@pytest.mark.usefixtures("short_patience")
async def test_a_child_that_closes_its_input_but_lives_has_hung_up() -> None:
    program = "os.close(0); time.sleep(0.1); os.write(2, b'deaf')\nwhile True: time.sleep(1)"
    async with connect(python(ANSWERING + program)) as client:
        with pytest.raises(AgentExited):
            async with asyncio.timeout(5):
                await client.new_session()
