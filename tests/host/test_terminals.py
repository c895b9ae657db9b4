"""Commands run for an agent: what is run, what it prints, how it ends, and that nothing of it is left."""

import asyncio
import fcntl
import json
import os
import pty
import re
import sys
import termios
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from torture.host_terminals import guess

from dragoman.errors import InvalidParams, Overloaded, RpcError
from dragoman.foundation.places import open_place
from dragoman.host.terminals import Size, Terminal, TerminalLimits, Terminals, execution

pytestmark = pytest.mark.usefixtures("nothing_left")

MEGABYTE = 1024 * 1024
METACHARACTERS = [
    *("", " ", "a b", "\t", "\n", "a\nb", "'", '"', "''", "`id`", "$(id)", "${HOME}", "$HOME", "$((1+1))", "a;b"),
    *("a&b", "a&&b", "a|b", "a||b", "a>b", "a<b", "a>>b", "2>&1", "<(id)", "*", "?", "[a]", "{a,b}", "~", "~root"),
    *("!", "!!", "#", "# a", "\\", "\\\\", "\\n", "a\\", "%s", "%n", "%00", "-", "--", "-c", "--help", "=", "a=b"),
    *(
        "()",
        "(id)",
        "{ id; }",
        "\r",
        "\r\n",
        "\x01",
        "\x1b[2J",
        "\x7f",
        "\u202e",
        "\u200b",
        "\ufeff",
        "é",
        "日本",
        "😀",
    ),
    *("e\u0301", "..", "../..", "/", "//", "/etc/passwd", "C:\\x", "&lt;", "$'\\x41'", '$"x"', "^a^b", "a\x0bb"),
    *(
        "a\x0cb",
        "\u2028",
        "\u0085",
        "$@",
        "$*",
        "$#",
        "$?",
        "$$",
        "$!",
        "$0",
        "$1",
        "$-",
        "${IFS}",
        "a{1..3}",
        "@(a)",
    ),
    *(
        "+(a)",
        "!(a)",
        "1>&2",
        "&>x",
        ">|x",
        "<<EOF",
        "<<<x",
        "|&",
        ";;",
        "if",
        "then",
        "[[ a ]]",
        "$[1+1]",
        "x" * 5000,
    ),
]


@pytest.fixture
async def terminals() -> AsyncIterator[Terminals]:
    async with Terminals(limits=TerminalLimits(grace=0.2)) as opened, asyncio.timeout(20):
        yield opened


async def run(terminals: Terminals, command: str, *args: str, cwd: Path | str = "/", **how: object) -> Terminal:
    """A command that has ended."""
    operation = execution(command, args, cwd=str(cwd), interactive="size" in how)
    terminal = await terminals.create("s", operation, **how)  # type: ignore[arg-type]
    await terminal.wait()
    return terminal


def python(code: str) -> tuple[str, ...]:
    return sys.executable, "-I", "-S", "-c", code


# What is run


def test_a_command_with_arguments_is_run_as_it_is() -> None:
    operation = execution("npm", ["run", "a; rm -rf /"], cwd="/w")
    assert (operation.argv, operation.shell) == (("npm", "run", "a; rm -rf /"), False)


def test_a_plain_command_without_arguments_needs_no_shell() -> None:
    assert execution("ls", cwd="/w").argv == ("ls",)


@pytest.mark.parametrize(
    "command", ["npm test", "a|b", "a && b", "$(id)", "ls *", "x > y", "A=1 b", "a\nb", "~/x y"]
)
def test_a_command_that_only_a_shell_understands_is_shown_to_be_one(command: str) -> None:
    operation = execution(command, cwd="/w")
    assert (operation.argv, operation.shell) == (("/bin/sh", "-c", command), True)
    assert operation.subject == command


def test_a_program_whose_path_has_blanks_is_no_shell_command(tmp_path: Path) -> None:
    program = tmp_path / "my tool"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert execution(str(program), cwd="/").argv == (str(program),)
    assert execution("./my tool", cwd=str(tmp_path)).argv == ("./my tool",)


def test_dangerous_variables_are_named_in_the_operation() -> None:
    operation = execution("make", cwd="/w", env=[("CI", "1"), ("LD_PRELOAD", "x.so"), ("PATH", ".")])
    assert operation.dangerous_env == ("LD_PRELOAD", "PATH")


def test_of_a_variable_set_twice_the_last_value_counts() -> None:
    assert execution("make", cwd="/w", env=[("A", "1"), ("B", "2"), ("A", "3")]).env == (("A", "3"), ("B", "2"))


@pytest.mark.parametrize(
    ("command", "args", "env"),
    [
        ("", [], []),
        ("a\0b", ["c"], []),
        ("a", ["b\0"], []),
        ("a", ["\udc80"], []),
        ("a", ["\ud800"], []),
        ("a", [], [("A\0", "")]),
        ("a", [], [("A", "\0")]),
        ("a", [], [("A=B", "")]),
        ("a", [], [("", "x")]),
    ],
)
def test_what_no_system_can_run_is_refused(command: str, args: list[str], env: list[tuple[str, str]]) -> None:
    with pytest.raises(InvalidParams) as refused:
        execution(command, args, cwd="/w", env=env)
    assert refused.value.data == {"kind": "cannot_start"}


async def test_arguments_arrive_as_they_are(terminals: Terminals) -> None:
    assert len(METACHARACTERS) >= 100
    program, *rest = python("import json, sys; print(json.dumps(sys.argv[1:]))")
    terminal = await run(terminals, program, *rest, *METACHARACTERS)
    assert json.loads(terminal.output().output) == METACHARACTERS


async def test_a_shell_command_is_run_by_a_shell(terminals: Terminals) -> None:
    assert (await run(terminals, "echo a | tr a b; exit 4")).output().output == "b\n"


async def test_a_command_runs_in_the_directory_that_was_opened(terminals: Terminals, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    with open_place(tmp_path / "here") as place:
        os.rename(tmp_path / "here", tmp_path / "moved")
        (tmp_path / "here").mkdir()  # an impostor
        operation = execution("pwd", ["-P"], cwd=str(tmp_path / "here"))
        terminal = await terminals.create("s", operation, directory=place)
        await terminal.wait()
    assert terminal.output().output == f"{tmp_path}/moved\n"


async def test_a_directory_that_is_not_there_is_an_error(terminals: Terminals, tmp_path: Path) -> None:
    with pytest.raises(InvalidParams, match="No such file"):
        await terminals.create("s", execution("true", cwd=str(tmp_path / "none")))


@pytest.mark.parametrize("command", ["no-such-program", "/etc", "/etc/hostname", "./no-such-file"])
async def test_a_command_that_cannot_be_run_is_an_error_that_names_it(terminals: Terminals, command: str) -> None:
    with pytest.raises(InvalidParams, match=re.escape(repr(command))) as refused:
        await terminals.create("s", execution(command, ["x"], cwd="/"))
    assert refused.value.data == {"kind": "cannot_start"}


async def test_a_failed_start_takes_up_no_room(tmp_path: Path) -> None:
    async with Terminals(limits=TerminalLimits(per_session=1)) as terminals:
        for _ in range(3):
            with pytest.raises(InvalidParams):
                await terminals.create("s", execution("no-such-program", ["x"], cwd="/"))
        await run(terminals, "true")


async def test_a_command_sees_none_of_sixty_planted_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(60):
        monkeypatch.setenv(f"PLANTED_{i}", "planted")
    async with Terminals(inherit=["PLANTED_7"]) as terminals:
        operation = execution("cat", ["/proc/self/environ"], cwd="/", env=[("CI", "1")])
        terminal = await terminals.create("s", operation)
        await terminal.wait()
        variables = dict(entry.split("=", 1) for entry in terminal.output().output.split("\0") if entry)
    assert [name for name in variables if name.startswith("PLANTED")] == ["PLANTED_7"]
    assert variables["CI"] == "1"
    assert variables["PATH"] == os.environ["PATH"]


async def test_a_variable_of_ours_that_is_no_text_arrives_as_it_is() -> None:
    ours = {"PATH": os.environ["PATH"], "TZ": os.fsdecode(b"\xff\xfe")}
    async with Terminals(environ=ours) as terminals:
        terminal = await run(terminals, *python("import os; print(os.environb[b'TZ'])"))
        assert terminal.output().output == "b'\\xff\\xfe'\n"


async def test_a_command_has_the_standard_descriptors_and_no_other(terminals: Terminals, tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(fd, True)
    listed = await run(terminals, *python("import os; print(*sorted(os.listdir('/proc/self/fd')))"))
    os.close(fd)
    assert listed.output().output.split() == ["0", "1", "2", "3"]  # the last is the directory being read


async def test_a_command_has_no_input_and_no_terminal_to_ask_on(terminals: Terminals) -> None:
    assert (await run(terminals, "cat")).status == (await run(terminals, "true")).status
    assert "No such device" in (await run(terminals, "read x < /dev/tty")).output().output


async def test_a_command_starts_with_default_signals(terminals: Terminals) -> None:
    for name in ("PIPE", "INT", "HUP", "XFSZ"):
        status = (await run(terminals, f"kill -{name} $$")).status
        assert status and status.signal == f"SIG{name}"


# Whose it is, and how many


async def test_a_foreign_terminal_is_as_unknown_as_one_that_never_was(tmp_path: Path) -> None:
    answers = await guess(tmp_path, guesses=100, sessions=10)
    assert len(answers) == 1
    assert "unknown_terminal" in answers.pop()


async def test_ids_cannot_be_guessed(terminals: Terminals) -> None:
    ids = {(await run(terminals, "true")).id for _ in range(5)}
    assert all(len(id.removeprefix("term_")) == 32 for id in ids)
    assert len(ids) == 5


async def test_a_session_has_a_limit_that_the_error_names() -> None:
    async with Terminals(limits=TerminalLimits(per_session=2, per_host=3)) as terminals:
        first = await run(terminals, "true")
        await run(terminals, "true")
        with pytest.raises(Overloaded, match="this session has reached its limit of 2 terminals") as refused:
            await run(terminals, "true")
        assert refused.value.data == {"kind": "terminal_limit", "limit": 2, "scope": "session"}
        await terminals.create("other", execution("true", cwd="/"))
        with pytest.raises(Overloaded, match="this host has reached its limit of 3 terminals"):
            await terminals.create("third", execution("true", cwd="/"))
        await terminals.release("s", first.id)
        await run(terminals, "true")


async def test_starts_at_the_same_time_keep_the_limit() -> None:
    async with Terminals(limits=TerminalLimits(per_session=3)) as terminals:
        starting = (terminals.create("s", execution("true", cwd="/")) for _ in range(10))
        created = await asyncio.gather(*starting, return_exceptions=True)
    assert [isinstance(one, Terminal) for one in created].count(True) == 3


async def test_closing_a_session_leaves_the_others_alone(terminals: Terminals) -> None:
    mine = await terminals.create("mine", execution("sleep", ["100"], cwd="/"))
    other = await terminals.create("other", execution("sleep", ["100"], cwd="/"))
    await terminals.close("mine")
    assert mine.status is not None
    assert terminals.find("other", other.id).status is None


async def test_limits_of_the_kernel_hold_for_commands(tmp_path: Path) -> None:
    limits = TerminalLimits(file_size=1000, open_files=17, memory=1 << 30)
    async with Terminals(limits=limits) as terminals:
        told = await run(terminals, "ulimit -f; ulimit -n; ulimit -v; ulimit -c")
        assert told.output().output.split()[1:] == ["17", str(1 << 20), "0"]
        await run(terminals, "head -c 5000 /dev/zero > big", cwd=tmp_path)
    assert (tmp_path / "big").stat().st_size == 1000


async def test_a_command_that_uses_up_its_processor_time_is_told_why() -> None:
    async with Terminals(limits=TerminalLimits(cpu_time=1)) as terminals, asyncio.timeout(20):
        status = (await run(terminals, *python("while True: pass"))).status
    assert status and status.signal == "SIGXCPU"


# Interactive terminals


async def test_an_interactive_command_has_a_terminal_of_the_size_asked_for(terminals: Terminals) -> None:
    terminal = await run(terminals, "test -t 0 && test -t 1 && test -t 2 && stty size", size=Size(81, 25))
    assert terminal.output().output == "25 81\r\n"


async def test_what_is_typed_arrives_and_can_interrupt(terminals: Terminals) -> None:
    command = "read x; echo got $x; trap 'echo stopped; exit 6' INT; echo ready; while :; do sleep 0.1; done"
    operation = execution(command, cwd="/", interactive=True)
    terminal = await terminals.create("s", operation, size=Size(80, 24))
    await terminal.input("hello\n")
    said = ""
    async for chunk in terminal.follow():
        said += chunk.text
        if "ready" in said:
            await terminal.input("\x03")
            said = said.replace("ready", "")
    assert "got hello" in said
    assert "stopped" in said
    assert terminal.status and terminal.status.exit_code == 6


async def test_a_change_of_size_reaches_the_command(terminals: Terminals) -> None:
    operation = execution(
        "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.01; done", cwd="/", interactive=True
    )
    terminal = await terminals.create("s", operation, size=Size(80, 24))
    async for chunk in terminal.follow():
        if "ready" in chunk.text:
            terminal.resize(columns=132, rows=43)
    assert terminal.output().output.endswith("43 132\r\n")


async def test_a_terminal_without_a_size_takes_no_input(terminals: Terminals) -> None:
    terminal = await terminals.create("s", execution("sleep", ["100"], cwd="/"))
    with pytest.raises(InvalidParams) as refused:
        await terminal.input("x")
    assert refused.value.data == {"kind": "not_interactive"}
    with pytest.raises(InvalidParams):
        terminal.resize(80, 24)


@pytest.mark.parametrize("size", [(0, 24), (80, -1), (80, 1 << 16)])
async def test_an_impossible_size_is_refused(terminals: Terminals, size: tuple[int, int]) -> None:
    operation = execution("sleep", ["100"], cwd="/", interactive=True)
    terminal = await terminals.create("s", operation, size=Size(80, 24))
    with pytest.raises(InvalidParams):
        terminal.resize(*size)


async def test_nothing_can_be_typed_into_a_command_that_is_over(terminals: Terminals) -> None:
    terminal = await run(terminals, "true", size=Size(80, 24))
    with pytest.raises(InvalidParams) as refused:
        await terminal.input("x")
    assert refused.value.data == {"kind": "ended"}


async def test_typing_that_nobody_reads_ends_with_the_command(terminals: Terminals) -> None:
    operation = execution("stty raw; echo ready; sleep 100", cwd="/", interactive=True)
    terminal = await terminals.create("s", operation, size=Size(80, 24))
    async for _ in terminal.follow():
        break
    typing = asyncio.create_task(terminal.input("x" * 1_000_000))
    done, _ = await asyncio.wait([typing], timeout=0.1)
    assert not done
    await terminal.kill()
    await typing


ATTACKER = """
import fcntl, os, sys, termios
for place in (0, 1, 2, "/dev/tty"):
    try:
        fd = place if isinstance(place, int) else os.open(place, os.O_RDWR)
        for key in b"echo injected\\n":
            fcntl.ioctl(fd, termios.TIOCSTI, bytes([key]))
    except OSError:
        pass
for number in range(300):
    os.write(1, b"\\x1b]%d;evil\\x07\\x1b[%dm\\x1b[c\\x1b[6n\\x1bP+q544e\\x1b\\\\" % (number, number))
try:
    os.write(os.open("/dev/tty", os.O_WRONLY), b"\\x1b[2Jevil")
except OSError:
    pass
"""
HOST = """
import asyncio, os, sys
from dragoman.host.terminals import Size
from dragoman.host.terminals import Terminals, execution

async def main():
    async with Terminals() as terminals:
        for size in (None, Size(80, 24)):
            operation = execution(sys.executable, ["-c", sys.argv[1]], cwd="/", interactive=size is not None)
            terminal = await terminals.create("s", operation, size=size)
            await terminal.wait()
            assert "evil" in terminal.output().output

asyncio.run(main())
os.set_blocking(0, False)
try:
    typed = os.read(0, 1000)
except BlockingIOError:
    typed = b""
print(repr(typed))
"""


async def test_nothing_of_a_command_reaches_our_own_terminal() -> None:
    ours, theirs = pty.openpty()

    def take_terminal() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    try:
        host = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", HOST, ATTACKER),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            preexec_fn=take_terminal,
        )
        async with asyncio.timeout(20):
            assert await host.wait() == 0
        shown = os.read(ours, 10_000)
    finally:
        os.close(ours)
        os.close(theirs)
    assert shown == b"b''\r\n"


async def test_errors_tell_nothing_but_what_was_asked_for(terminals: Terminals) -> None:
    with pytest.raises(RpcError) as unknown:
        terminals.find("s", "term_nothing")
    assert "nothing" not in str(unknown.value)
