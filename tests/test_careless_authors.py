"""Programs that use the library carelessly: nothing hangs, nothing is lost in silence, and the reason is told."""

import asyncio
import contextlib
import gc
import logging
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from behaviour.loops import eager_loop
from leftovers import descriptors
from torture.by_hand import PATIENCE, facing_client

from dragoman import (
    Agent,
    Client,
    ConnectionClosed,
    InternalError,
    LocalProtocolError,
    Prompt,
    Proxy,
    RequestTimeout,
    RpcError,
    Turn,
    blocking,
    compose,
    connect,
    extension,
    serve_on,
    streams,
)
from dragoman import schema as s
from dragoman.agent.apps import App
from dragoman.connection.connection import Connection
from dragoman.events import Method, Reply
from dragoman.testing import Echo, RecordingClient, Testy, pair
from dragoman.transports.memory import pipe

INITIALIZE = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}\n'
TESTY = [sys.executable, "-m", "dragoman", "agent", "testy"]


def ran(program: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run a program as its author would, without the warnings that a test makes errors."""
    command = [sys.executable, "-c", textwrap.dedent(program), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)


# Prompts


async def never_begun(prompt: Prompt) -> None:
    task = asyncio.create_task(prompt)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def out_of_time(prompt: Prompt) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(prompt, 0)


async def closed(prompt: Prompt) -> None:
    prompt.close()


@pytest.mark.parametrize("let_go", [never_begun, out_of_time, closed])
async def test_a_prompt_that_is_let_go_before_anybody_awaited_it_is_cancelled(
    let_go: Callable[[Prompt], Awaitable[None]],
) -> None:
    async with asyncio.timeout(PATIENCE), pair(Testy) as client:
        session = await client.new_session()
        await let_go(prompt := session.prompt("wait"))
        assert (await session.prompt("echo next")).stop_reason == "end_turn"
        assert prompt.response.stop_reason == "cancelled"


async def test_abandoned_prompts_keep_nothing() -> None:
    """Each says 8 MiB, of which 4 are kept in memory: if the rest were kept, there would be files."""
    async with asyncio.timeout(PATIENCE), pair(Testy) as client:
        session = await client.new_session()
        before = descriptors()
        for _ in range(3):
            async for _ in session.prompt("flood 80 100000"):
                break
        await session.prompt("echo done")
        assert descriptors() == before


class Binary(Agent):
    async def answer(self, turn: Turn) -> None:
        await turn.write("/a.txt", b"new")  # type: ignore[arg-type]


async def test_bytes_are_not_written_as_some_other_text(caplog: pytest.LogCaptureFixture) -> None:
    client = RecordingClient(files={"/a.txt": "old"})
    async with pair(Binary, client):
        session = await client.new_session("/")
        with pytest.raises(InternalError), caplog.at_level(logging.ERROR):
            await session.prompt("go")
    assert "this fs/write_text_file cannot be sent: it holds bytes, b'new'" in caplog.text
    assert client.files == {"/a.txt": "old"}


class Markup(str):
    """As libraries of templates have it."""


class Templating(Agent):
    async def answer(self, turn: Turn) -> None:
        await turn.say(Markup("hello"))
        async with turn.tool(Markup("Count"), raw_input={"words": Markup("two")}):
            pass


async def test_a_subclass_of_a_text_is_said_as_a_text() -> None:
    client = RecordingClient()
    async with pair(Templating, client):
        session = await client.new_session("/")
        await session.prompt(Markup("go"))
    said, called, _ = (update.update for update in client.updates)
    assert isinstance(said, s.AgentMessageChunk) and said.content == s.TextContent(text="hello")
    assert isinstance(called, s.ToolCall) and (called.title, called.raw_input) == ("Count", {"words": "two"})


# Classes


class Forgetful(Echo):
    def __init__(self, client: object) -> None:
        self.database = client


async def test_an_agent_that_forgets_to_initialise_itself_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(InternalError):
        async with connect(Forgetful):
            pass
    assert "Forgetful.__init__ must call super().__init__(client) first" in caplog.text


async def test_attributes_that_nobody_has_are_still_missing() -> None:
    async with pair(Echo) as client:
        assert not hasattr(client, "anything")
        assert not hasattr(Echo(client.agent), "anything")  # type: ignore[arg-type]


# Processes


async def test_a_listener_of_stderr_that_fails_is_reported_once_and_the_agent_works_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[bytes] = []

    def failing(data: bytes) -> None:
        heard.append(data)
        raise ValueError("no room")

    with caplog.at_level(logging.ERROR):
        async with connect(TESTY, on_stderr=failing) as client:
            session = await client.new_session()
            for _ in range(3):
                await session.prompt("print stray")
    assert len(heard) == 1
    assert caplog.text.count("on_stderr failed") == 1


def test_an_agent_that_ends_at_once_is_told_though_its_parent_ignores_the_ends_of_children() -> None:
    program = """
        import asyncio, signal
        from dragoman import AgentStartError, connect
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        async def main():
            for _ in range(5):
                try:
                    async with connect(["sh", "-c", "exit 3"]):
                        pass
                except AgentStartError:
                    print("told")
        asyncio.run(main())
    """
    done = ran(program)
    assert (done.stdout, done.stderr) == ("told\n" * 5, "")


async def test_a_script_whose_interpreter_is_missing_is_not_called_missing_itself(tmp_path: Path) -> None:
    script = tmp_path / "agent"
    script.write_text("#!/nonexistent/python\n")
    script.chmod(0o755)
    with pytest.raises(Exception, match=r"the interpreter in its first line does not exist: .*agent"):
        async with connect(script):
            pass


def test_who_works_in_a_directory_that_was_removed_is_told_so(tmp_path: Path) -> None:
    program = """
        import asyncio, os, sys
        os.chdir(sys.argv[1]); os.rmdir(sys.argv[1])
        from dragoman import Error, connect
        from dragoman.testing import Echo
        async def main():
            async with connect(Echo) as client:
                try:
                    await client.new_session()
                except Error as exc:
                    print(exc)
                print((await (await client.new_session("/")).prompt("hello")).stop_reason)
        asyncio.run(main())
    """
    (tmp_path / "gone").mkdir()
    done = ran(program, str(tmp_path / "gone"))
    told = "it is relative, and the current directory was removed. Give an absolute path"
    assert (done.stdout, done.stderr) == (f"there is no directory '.': {told}\nend_turn\n", "")


IN_A_THREAD = "import threading\nt = threading.Thread(target=serve, args=[Echo])\nt.start()\nt.join()"
WITHOUT_STREAMS = "import sys\nsys.stdin = sys.stdout = sys.stderr = None\nserve(Echo)"


@pytest.mark.parametrize("served", [IN_A_THREAD, WITHOUT_STREAMS], ids=["in a thread", "without streams"])
async def test_an_agent_is_served_from_anywhere(served: str) -> None:
    program = f"from dragoman import serve\nfrom dragoman.testing import Echo\n{served}"
    async with asyncio.timeout(PATIENCE), connect([sys.executable, "-c", program]) as client:
        assert (await (await client.new_session("/")).prompt("hello")).stop_reason == "end_turn"


# Event loops


def test_a_loop_that_is_closed_by_hand_prints_nothing() -> None:
    program = """
        import asyncio, gc, sys
        from dragoman import connect
        from dragoman.testing import Testy
        async def begin(agent):
            opened = connect(agent)
            client = await opened.__aenter__()
            session = await client.new_session("/")
            return opened, session, session.prompt("wait")
        for agent in (Testy, [sys.executable, "-m", "dragoman", "agent", "testy"]):
            for collects in (True, False):
                loop = asyncio.new_event_loop()
                kept = loop.run_until_complete(begin(agent))
                loop.close()
                if collects:
                    del kept
                    gc.collect()
        print("done")
    """
    done = ran(program)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_a_connection_is_left_in_the_loop_that_entered_it() -> None:
    opened = connect(Echo)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(opened.__aenter__())
    with pytest.raises(RuntimeError, match="entered in another event loop, and has to be left there"):
        asyncio.run(opened.__aexit__(None, None, None))
    loop.run_until_complete(opened.__aexit__(None, None, None))
    loop.close()


def test_tasks_that_end_at_once_are_not_kept() -> None:
    """As the eager factory of Python 3.12 has them."""

    class Ponging(Agent):
        @extension("_ping")
        async def ping(self, params: object) -> dict[str, bool]:
            return {"pong": True}

    async def ask() -> int:
        async with pair(Ponging) as client:
            for _ in range(100):
                await client.agent.request("_ping")
            gc.collect()
            return sum(asyncio.isfuture(each) and each.done() for each in gc.get_objects())

    with asyncio.Runner(loop_factory=eager_loop) as runner:
        assert runner.run(ask()) < 50


# Without an event loop


def test_a_turn_that_failed_fails_again_with_the_same_error() -> None:
    with blocking.connect(Testy) as client:
        turn = client.new_session().prompt("fail")
        told = []
        for ask in (lambda: turn.text, lambda: turn.response, lambda: list(turn)):
            with pytest.raises(RpcError) as caught:
                ask()
            told.append(str(caught.value))
        assert len(set(told)) == 1


def test_a_coroutine_that_exits_ends_its_caller_and_not_the_client() -> None:
    async def leave() -> None:
        raise SystemExit(4)

    with blocking.connect(Testy) as client:
        with pytest.raises(SystemExit):
            client.run(leave())
        assert client.new_session().prompt("echo still here").text == "still here"


def test_ctrl_c_cancels_the_turn_that_was_waited_for() -> None:
    program = """
        import os, signal, threading
        from dragoman import blocking
        from dragoman.testing import Testy
        with blocking.connect(Testy) as client:
            turn = client.new_session("/").prompt("wait")
            threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
            try:
                turn.text
            except KeyboardInterrupt:
                print(turn.response.stop_reason)
    """
    done = ran(program)
    assert (done.stdout, done.stderr) == ("cancelled\n", "")


def test_who_gets_no_thread_is_told_so_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(RuntimeError, match="can't start new thread"), blocking.connect(Testy):
        pass
    gc.collect()  # a coroutine that nobody awaited would warn, and warnings are errors


# Outcomes


async def test_every_request_that_fails_with_the_connection_raises_an_error_of_its_own() -> None:
    async with facing_client() as (client, hand):
        asked = [asyncio.create_task(client.agent.request("_ask")) for _ in range(20)]
        for _ in asked:
            await hand.receive()
        await hand.transport.close()
        errors = await asyncio.gather(*asked, return_exceptions=True)
    assert len(set(map(id, errors))) == 20
    assert all(isinstance(error, ConnectionClosed) for error in errors)


async def test_whoever_fails_on_being_told_keeps_nobody_else_from_it() -> None:
    ours, theirs = pipe()
    connection = Connection(ours)
    connection.start()
    told: list[Reply] = []

    def failing(reply: Reply) -> None:
        raise SystemExit(1)

    ask = Method("_ask", object, object)
    for settle in (failing, told.append, failing, told.append):
        connection.submit(ask, {}, settle)
    theirs.listen(lambda frames: None, lambda: None)
    theirs.send([b'[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"result":{}}]'])
    async with asyncio.timeout(PATIENCE):
        while not told:  # noqa: ASYNC110 - a batch is refused, and each of its answers with it
            await asyncio.sleep(0)
    await theirs.close()
    await connection.close()
    assert [reply.id for reply in told] == [2, 4]


class Broken(logging.Handler):
    """As one is whose disk is full, or whose server is gone."""

    def handle(self, record: logging.LogRecord) -> bool:
        raise OSError("no space left")


class Failing(Agent):
    async def answer(self, turn: Turn) -> None:
        raise ValueError("mine")


class Deaf(Client):
    def update(self, params: s.SessionNotification) -> None:
        raise ValueError("mine, too")


async def test_a_log_that_cannot_be_written_leaves_no_request_without_its_outcome() -> None:
    broken, log = Broken(), logging.getLogger("dragoman")
    log.addHandler(broken)
    try:
        async with asyncio.timeout(PATIENCE):
            async with pair(Failing) as client:
                with pytest.raises(InternalError):
                    await (await client.new_session("/")).prompt("go")
            async with pair(Testy, Deaf()) as client:
                assert (await (await client.new_session("/")).prompt("flood 100")).stop_reason == "end_turn"
    finally:
        log.removeHandler(broken)


async def test_a_short_wait_is_not_made_as_long_as_one_that_began_before_it() -> None:
    ours, theirs = pipe()
    connection = Connection(ours)
    connection.start()
    theirs.listen(lambda frames: None, lambda: None)
    slow = asyncio.create_task(connection.call(Method("_slow", object, object, timeout=600), {}))
    await asyncio.sleep(0)
    with pytest.raises(RequestTimeout, match="_quick was not answered"):
        async with asyncio.timeout(PATIENCE):
            await connection.call(Method("_quick", object, object, timeout=0.01), {})
    assert not slow.done()
    await connection.close()
    with pytest.raises(ConnectionClosed):
        await slow


async def test_whoever_waits_for_room_does_so_in_the_loop_of_the_connection() -> None:
    async with pair(Echo) as client:
        with pytest.raises(LocalProtocolError, match="belongs to another event loop"):
            await asyncio.to_thread(asyncio.run, client.connection.room())


class Large(Agent):
    @extension("_large")
    async def large(self, params: object) -> str:
        return "x" * 1024 * 1024


async def taken_of(app: App, asked: bytes, more: bytes) -> int:
    """How many bytes of up to 64 MiB a server takes from a client that reads nothing, before it stops for 3 s."""
    end, other = socket.socketpair()
    end.setblocking(False)
    serving = asyncio.create_task(serve_on(app, streams(*await asyncio.open_connection(sock=other))))
    loop, first, taken = asyncio.get_running_loop(), b"", 0
    with end:
        await loop.sock_sendall(end, INITIALIZE)
        while b"\n" not in first:
            first += await loop.sock_recv(end, 65536)
        await loop.sock_sendall(end, asked)
        with contextlib.suppress(TimeoutError):
            while taken < 64 * 1024 * 1024:
                async with asyncio.timeout(3):
                    await loop.sock_sendall(end, more)
                taken += len(more)
    async with asyncio.timeout(PATIENCE):  # a wire that is not read from sees the other end go all the same
        await serving
    return taken


async def test_a_peer_that_takes_no_answers_is_not_read_from() -> None:
    """It has 48 MiB of answers to take; then not even small requests are taken in without end."""
    asked = [b'{"jsonrpc":"2.0","id":%d,"method":"_large"}\n' % id for id in range(1, 49)]
    more = b'{"jsonrpc":"2.0","id":0,"method":"_x","params":{"x":"%s"}}\n' % (b"y" * 65_536)
    assert await taken_of(Large, b"".join(asked), more) < 16 * 1024 * 1024


class Pondering(Proxy):
    async def prompt(self, params: s.PromptRequest) -> s.PromptResponse:
        await asyncio.Event().wait()
        return await super().prompt(params)


async def test_what_waits_behind_a_proxy_s_handler_is_bounded() -> None:
    asked = b'{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}\n'
    more = b'{"jsonrpc":"2.0","method":"_x","params":{"sessionId":"s","x":"%s"}}\n' % (b"y" * 65_536)
    assert await taken_of(compose(Pondering, Echo), asked, more) < 16 * 1024 * 1024
