"""Standard streams as a wire: nothing else gets onto it, and it runs over whatever a process is started with."""

import asyncio
import contextlib
import json
import os
import random
import select
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import msgspec
import pytest
from patience import PATIENCE
from torture.by_hand import Hand, Ponging, facing_agent, note, opened, request, resident

from dragoman import serve_on
from dragoman.framing import join_lines
from dragoman.transports import HIGH_WATER
from dragoman.transports.stdio import StdioTransport

pytestmark = pytest.mark.usefixtures("nothing_left")

# Does in each turn all that would spoil a wire, and says what it found.
STRAY = """
import ctypes, faulthandler, os, subprocess, sys, warnings
from dragoman import Agent, LocalProtocolError, serve
from dragoman.transports.stdio import claimed_stdio

class Stray(Agent):
    async def answer(self, turn):
        print("STRAY print")
        print("STRAY stderr", file=sys.stderr)
        sys.stdout.write("STRAY write")
        sys.__stdout__.flush()
        os.write(1, b"STRAY descriptor\\n")
        subprocess.run(["echo", "STRAY child"])
        subprocess.run([sys.executable, "-IS", "-c", "import os; os.write(1, b'STRAY python')"])
        libc = ctypes.CDLL(None)
        libc.puts(b"STRAY puts")
        libc.fflush(None)
        libc.puts(b"STRAY unflushed puts")
        faulthandler.dump_traceback(file=1)
        warnings.warn("STRAY warning")
        try:
            typed = input("STRAY question")
        except EOFError:
            typed = "nothing"
        try:
            with claimed_stdio():
                second = "taken twice"
        except LocalProtocolError:
            second = "refused"
        await turn.say(f"{typed}, {second}, {sys.stdin.read()!r}")

serve(Stray)
os.write(1, b"RESTORED\\n")
os.write(1, b"rest: " + os.read(0, 100))
"""
TALK = [
    request(1, "initialize", {"protocolVersion": 1}),
    request(2, "session/new", {"cwd": "/", "mcpServers": []}),
]


def prompt(session: str, id: int = 3) -> dict[str, Any]:
    return request(id, "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]})


class Child:
    """A process with whatever for standard streams, spoken to by hand."""

    def __init__(
        self,
        stdin: Any,
        stdout: Any,
        stderr: Any = subprocess.PIPE,
        program: str = STRAY,
        closed: tuple[str, ...] = (),
    ) -> None:
        env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}  # C has buffers too
        command = without(closed, [sys.executable, "-c", program])
        self.process = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, env=env)
        self.read_bytes = b""
        self.lines: list[bytes] = []

    def __enter__(self) -> "Child":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream:
                stream.close()

    def converse(self, write: int, read: int) -> None:
        """A whole conversation; its lines are kept."""
        session = ""
        for message in [*TALK, None]:
            _write(write, message or prompt(session))
            answer = self.answer(read)
            session = session or answer.get("result", {}).get("sessionId", "")

    def answer(self, read: int) -> dict[str, Any]:
        """The next line that is an answer."""
        while True:
            while b"\n" not in self.read_bytes:
                self.read_bytes += _read(read)
            line, self.read_bytes = self.read_bytes.split(b"\n", 1)
            self.lines.append(line)
            if "method" not in (message := json.loads(line)):
                return message

    def rest(self, read: int) -> bytes:
        """All that comes after the last answer, to the very end."""
        data = self.read_bytes
        while part := _read(read):
            data += part
        return data


def _write(fd: int, message: dict[str, Any]) -> None:
    os.write(fd, json.dumps(message).encode() + b"\n")


def _read(fd: int) -> bytes:
    readable, _, _ = select.select([fd], [], [], 10)
    assert readable, "nothing came for ten seconds"
    return os.read(fd, 65536)


SAID = "nothing, refused, ''"


def check_lines(lines: list[bytes]) -> None:
    """Each line is a message, and among them is what the agent found."""
    messages = [json.loads(line) for line in lines]
    assert all(message["jsonrpc"] == "2.0" for message in messages)
    said = [m["params"]["update"]["content"]["text"] for m in messages if m.get("method") == "session/update"]
    assert said == [SAID]


def test_nothing_a_program_prints_gets_onto_the_wire() -> None:
    with Child(subprocess.PIPE, subprocess.PIPE) as child:
        assert child.process.stdin
        assert child.process.stdout
        assert child.process.stderr
        write, read = child.process.stdin.fileno(), child.process.stdout.fileno()
        child.converse(write, read)
        check_lines(child.lines)
        child.process.stdin.close()
        rest = child.rest(read)
        assert rest == b"RESTORED\nrest: ", (
            "afterwards the streams are what they were, and nothing waited to spoil them"
        )
        stray = child.process.stderr.read()
        for word in (
            b"print",
            b"write",
            b"descriptor",
            b"child",
            b"python",
            b"puts",
            b"warning",
            b"question",
            b"stderr",
        ):
            assert b"STRAY " + word in stray
        assert child.process.wait(10) == 0


def test_a_wire_that_is_stderr_too_stays_clean() -> None:
    with Child(subprocess.PIPE, subprocess.PIPE, subprocess.STDOUT) as child:
        assert child.process.stdin
        assert child.process.stdout
        read = child.process.stdout.fileno()
        child.converse(child.process.stdin.fileno(), read)
        check_lines(child.lines)
        child.process.stdin.close()
        assert child.rest(read) == b"RESTORED\nrest: "


def test_one_socket_for_both_streams_is_a_wire() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, Child(theirs, theirs) as child:
        theirs.close()
        child.converse(ours.fileno(), ours.fileno())
        check_lines(child.lines)
        ours.shutdown(socket.SHUT_WR)
        assert child.rest(ours.fileno()).startswith(b"RESTORED\n")


def test_a_socket_for_each_stream_is_a_wire() -> None:
    with contextlib.ExitStack() as stack:
        our_out, their_in, our_in, their_out = (
            stack.enter_context(end) for end in (*socket.socketpair(), *socket.socketpair())
        )
        child = stack.enter_context(Child(their_in, their_out))
        their_in.close()
        their_out.close()
        child.converse(our_out.fileno(), our_in.fileno())
        check_lines(child.lines)
        our_out.close()
        assert child.rest(our_in.fileno()).startswith(b"RESTORED\n")


ECHO = """
from dragoman import Agent, extension, serve
class Echo(Agent):
    async def __aenter__(self):
        print("STRAY", flush=True)
        return self
    @extension("_echo")
    async def echo(self, params):
        return params
serve(Echo)
"""


def files(folder: Path, messages: list[dict[str, Any]]) -> tuple[IO[bytes], IO[bytes]]:
    (folder / "in").write_bytes(join_lines(map(msgspec.json.encode, messages)))
    return (folder / "in").open("rb"), (folder / "out").open("w+b")


@pytest.mark.parametrize("stderr", [subprocess.PIPE, subprocess.STDOUT], ids=["apart", "in the same file"])
def test_regular_files_are_a_wire(tmp_path: Path, stderr: int) -> None:
    """The whole conversation is in a file before it begins, so all but its first request come too early."""
    source, sink = files(tmp_path, [TALK[0], *[request(n, "_echo", {"n": n}) for n in range(100)]])
    with source, sink, Child(source, sink, stderr, ECHO) as child:
        child.process.wait(10)
        answers = [json.loads(line) for line in (tmp_path / "out").read_bytes().splitlines()]
        assert sorted(answer["id"] for answer in answers) == sorted([1, *range(100)])


def test_a_terminal_is_a_wire(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    import tty

    tty.setraw(theirs)
    with Child(theirs, theirs, program=ECHO) as child:
        os.close(theirs)
        _write(ours, TALK[0])
        assert child.answer(ours)["id"] == 1
        _write(ours, request(2, "_echo", {"text": "x" * 2000}))
        assert child.answer(ours)["result"] == {"text": "x" * 2000}
    os.close(ours)


PEAK = 'import sys; sys.stderr.write(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")))'


def peak_with(lines: int, folder: Path) -> int:
    """The most memory an agent had that was given so many lines in a file."""
    line = msgspec.json.encode(note("_nobody/knows", {"text": "x" * 20})) + b"\n"
    (folder / "in").write_bytes(msgspec.json.encode(TALK[0]) + b"\n" + line * lines)
    sink = subprocess.DEVNULL
    with (folder / "in").open("rb") as source, Child(source, sink, program=ECHO + PEAK) as child:
        assert child.process.stderr
        return int(child.process.stderr.read().split(b"VmHWM:")[1].split()[0]) * 1024


def test_a_file_is_read_no_faster_than_it_is_answered(tmp_path: Path) -> None:
    assert peak_with(200_000, tmp_path) - peak_with(1, tmp_path) < 6 * 1024 * 1024


async def test_descriptors_are_closed_with_the_wire(tmp_path: Path) -> None:
    """Over pipes, sockets, files and a device alike; the fixture counts what is left."""
    (tmp_path / "in").write_bytes(b"")
    for _ in range(5):
        (a, b), (c, d) = os.pipe(), os.pipe()
        left, right = (end.detach() for end in socket.socketpair())
        for read_fd, write_fd in (
            (a, d),
            (left, os.dup(left)),
            (os.open(tmp_path / "in", os.O_RDONLY), os.open(tmp_path / "out", os.O_CREAT | os.O_WRONLY)),
            (os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY)),
        ):
            hand = Hand(await opened(read_fd, write_fd))
            await hand.transport.close()
            await hand.over.wait()
        for fd in (b, c, right):
            os.close(fd)


async def test_a_wire_nobody_ever_listened_to_can_be_closed() -> None:
    (a, b), (c, d) = os.pipe(), os.pipe()
    transport = await opened(a, d)
    await transport.close()
    for fd in (b, c):
        os.close(fd)


async def test_reading_stops_while_held_and_the_pipe_fills_up() -> None:
    (a, b), (c, d) = os.pipe(), os.pipe()
    transport = await opened(a, d)
    hand = Hand(transport)
    transport.hold()
    os.set_blocking(b, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(b, b'{"jsonrpc":"2.0"}\n'):
            pass
    for _ in range(10):
        await asyncio.sleep(0)
    assert hand.received() == []
    transport.resume()
    assert (await hand.receive()) == {"jsonrpc": "2.0"}
    await transport.close()
    for fd in (b, c):
        os.close(fd)


async def test_a_sender_waits_for_a_reader_that_does_not_read_and_is_let_go_when_it_is_gone() -> None:
    (a, b), (c, d) = os.pipe(), os.pipe()
    transport = await opened(a, d)
    hand = Hand(transport)
    transport.send([b"x" * HIGH_WATER * 2])
    assert transport.queued > HIGH_WATER
    draining = asyncio.create_task(transport.drain())
    await asyncio.sleep(0)
    assert not draining.done()
    os.close(c)
    async with asyncio.timeout(5):
        await draining
        await hand.over.wait()
    transport.send([b"nobody hears this"])
    await transport.close()
    os.close(b)


async def test_what_is_queued_is_sent_before_the_wire_is_closed() -> None:
    (a, b), (c, d) = os.pipe(), os.pipe()
    transport = await opened(a, d)
    Hand(transport)
    transport.send([b"x" * 300_000])
    reading = asyncio.create_task(asyncio.to_thread(_read_all, c))
    await transport.close()
    assert len(await reading) == 300_001
    os.close(b)


def _read_all(fd: int) -> bytes:
    with os.fdopen(fd, "rb") as file:
        return file.read()


async def test_a_stream_cut_anywhere_gives_the_same_messages() -> None:
    dice = random.Random(4)
    (a, b), (c, d) = os.pipe(), os.pipe()
    transport = await opened(a, d)
    hand = Hand(transport)
    stream = b"".join(
        json.dumps({"n": n, "text": "\u00e9\U0001f600" * (n % 50)}).encode() + b"\r\n\n" for n in range(300)
    )
    at = 0
    while at < len(stream):
        size = dice.choice((1, 2, 3, 100, 5000))
        os.write(b, stream[at : at + size])
        at += size
        await asyncio.sleep(0)
    os.close(b)
    async with asyncio.timeout(5):
        await hand.over.wait()
    assert [message["n"] for message in hand.received()] == list(range(300))
    await transport.close()
    os.close(c)


async def test_a_line_without_end_costs_no_memory() -> None:
    """T03, small; at full size it is a gigabyte."""
    async with facing_agent(wire="stdio", limit=1024 * 1024) as hand:
        before = resident()
        writer = hand.transport._writer  # type: ignore[attr-defined]
        writer.write(b'{"jsonrpc":"2.0","id":"endless","method":"_echo","params":"')
        for _ in range(256):
            writer.write(b"x" * 256 * 1024)
            await hand.transport.drain()
        assert resident() - before < 16 * 1024 * 1024
        writer.write(b"\n")
        refusal = await hand.receive()
        assert (refusal["id"], refusal["error"]["code"]) == ("endless", -32600)
        assert await hand.ping() == []


async def test_a_stopped_agent_says_its_last_words() -> None:
    (a, b), (c, d) = os.pipe(), os.pipe()
    serving = asyncio.create_task(serve_on(Ponging, await opened(a, d)))
    os.write(b, json.dumps(TALK[0]).encode() + b"\n" + json.dumps(request(5, "_echo", {})).encode() + b"\n")
    os.close(b)
    async with asyncio.timeout(5):
        await serving
    answers = [json.loads(line) for line in _read_all(c).splitlines()]
    assert sorted(answer["id"] for answer in answers) == [1, 5]


def test_a_transport_needs_a_running_loop() -> None:
    with pytest.raises(RuntimeError):
        StdioTransport()


SERVE = [sys.executable, "-c", "from dragoman import serve; from dragoman.testing import Echo; serve(Echo)"]
TRANSLATE = [sys.executable, "-m", "dragoman", "translate", "--", *SERVE]


@pytest.mark.parametrize(("program", "code"), [(SERVE, 1), (TRANSLATE, 5)], ids=["serve", "translate"])
@pytest.mark.parametrize("closed", [("stdin",), ("stdout",), ("stdin", "stdout")], ids="-".join)
def test_a_program_started_without_its_streams_says_so_in_one_sentence(
    program: list[str], code: int, closed: tuple[str, ...]
) -> None:
    ended = subprocess.run(
        without(closed, program), stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE
    )
    told = f"{' and '.join(closed)} {'is' if len(closed) == 1 else 'are'} closed. Start this program with pipes"
    assert (ended.returncode, ended.stderr.count(b"\n")) == (code, 1), ended.stderr
    assert told.encode() in ended.stderr


@pytest.mark.parametrize("closed", [("stdin", "stderr"), ("stdout", "stderr")], ids="-".join)
def test_a_program_started_with_nowhere_to_complain_fails_all_the_same(closed: tuple[str, ...]) -> None:
    ended = subprocess.run(without(closed, SERVE), stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, b"", b"")


def test_stray_output_of_a_program_without_stderr_stays_off_its_socket() -> None:
    """Its number would go to the copy of the socket that is made first, and every stray print onto the wire."""
    ours, theirs = socket.socketpair()
    with ours, Child(theirs, theirs, closed=("stderr",)) as child:
        theirs.close()
        child.converse(ours.fileno(), ours.fileno())
        ours.shutdown(socket.SHUT_WR)
        rest = child.rest(ours.fileno())
    assert b"STRAY" not in b"".join(child.lines) + rest


def without(closed: tuple[str, ...], command: list[str]) -> list[str]:
    """A command that starts with some of its standard streams closed."""
    ends = {"stdin": "<&-", "stdout": ">&-", "stderr": "2>&-"}
    return ["sh", "-c", f'exec "$@" {" ".join(ends[name] for name in closed)}', "sh", *command]
