"""A system that is no Unix, simulated: Python's Unix modules are hidden, in a process of its own.

What needs none of them works; whatever else is begun says so in one sentence.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE

# Before anything is imported: the modules and functions that Windows does not have.
ELSEWHERE = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name in ("fcntl", "termios", "tty", "pty", "pwd", "grp", "resource"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
for name in ("fcntl", "termios", "tty", "pty", "pwd", "grp", "resource"):
    sys.modules.pop(name, None)
"""

IN_PROCESS = """
import asyncio
from dragoman import Agent, connect
from dragoman.schema import AgentMessageChunk

class Echo(Agent):
    async def answer(self, turn):
        await turn.say(f"You said: {turn.text}")

async def main():
    async with connect(Echo) as client:
        session = await client.new_session("/")
        events = [event async for event in session.prompt("hello")]
        print(*(event.content.text for event in events if isinstance(event, AgentMessageChunk)))

asyncio.run(main())
"""
REMOTE = """
import asyncio
from dragoman import connect

async def main():
    directory, *urls = sys.argv[1:]
    for url in urls:
        async with connect(url) as client:
            session = await client.new_session(directory)
            print((await session.prompt("echo hello")).stop_reason)

asyncio.run(main())
"""


def elsewhere(program: str, *words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-c", f"{ELSEWHERE}\n{program}", *words]
    environ = {**os.environ, **(env or {})}
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environ)


def command(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return elsewhere("from dragoman.cli import main\nsys.exit(main())", *words, env=env)


@pytest.mark.parametrize(
    "module",
    [
        *(
            "schema",
            "schema.v2",
            "codec",
            "framing",
            "envelope",
            "rpc",
            "transcript",
            "connection",
            "agent",
            "client",
        ),
        *(
            "proxy",
            "testing",
            "transports.remote",
            "transports.memory",
            "transports.translating",
            "transports.relay",
        ),
        *(
            "transports.translating",
            "dialects",
            "store",
            "store.database.database",
            "store.exchange.exchange",
            "blocking",
            "ui.markdown",
        ),
    ],
)
def test_a_part_that_needs_no_unix_is_there(module: str) -> None:
    done = elsewhere(f"import dragoman.{module}")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_agent_in_the_same_process_is_driven() -> None:
    done = elsewhere(IN_PROCESS)
    assert (done.stdout, done.stderr) == ("You said: hello\n", "")


def test_a_remote_agent_is_driven_over_either_transport(tmp_path: Path) -> None:
    state = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    serving = [
        sys.executable,
        "-m",
        "dragoman",
        "serve",
        "--agent",
        "testy",
        "--no-auth",
        "--listen",
        "127.0.0.1:0",
    ]
    with subprocess.Popen(serving, cwd=tmp_path, env=state, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        url = server.stdout.readline().strip()
        done = elsewhere(REMOTE, str(tmp_path), f"{url}/testy", f"{url}/testy".replace("ws://", "http://"))
        server.terminate()
    assert (done.stdout, done.stderr) == ("end_turn\nend_turn\n", "")


def test_stored_sessions_are_read_and_none_is_written(tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    run = [sys.executable, "-m", "dragoman", "run", "--agent", "reviewer", "/help"]
    subprocess.run(run, cwd=tmp_path, env=env, check=True, capture_output=True, timeout=PATIENCE)
    listed = command("sessions", "list", env=env)
    id = listed.stdout.split()[0]
    assert id.startswith("sess_") and listed.returncode == 0
    exported = command("sessions", "export", id, env=env)
    assert exported.returncode == 0 and "/help" in exported.stdout
    deleted = command("sessions", "delete", id, env=env)
    assert deleted.returncode == 1
    assert deleted.stderr == (
        "dragoman: writing sessions needs a Unix system, such as Linux or macOS; reading does not\n"
    )
    assert command("sessions", "list", env=env).stdout == listed.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("run", "hello"),
        ("demo",),
        ("agent", "echo"),
        ("agent", "coder"),
        ("agent", "pty", "--", "cat"),
        ("serve", "--agent", "echo"),
        ("connect", "ws://127.0.0.1:1/acp"),
        ("gateway", "sessions"),
        ("gateway", "tokens", "list"),
        ("translate", "--", "cat"),
        ("audit",),
        ("permissions", "check", __file__),
    ],
    ids=" ".join,
)
def test_every_other_command_says_in_one_sentence_that_it_needs_unix(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "dragoman").mkdir()
    (tmp_path / "dragoman" / "audit.jsonl").touch()
    done = command(*words, env={"XDG_STATE_HOME": str(tmp_path)})
    sentence = "dragoman: this needs a Unix system, such as Linux or macOS: here Python has no '"
    assert sum(line.startswith(sentence) for line in done.stderr.splitlines()) == 1
    assert done.returncode == 1 and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "program",
    [
        "import dragoman; dragoman.serve(dragoman.Agent)",
        "import asyncio, dragoman; asyncio.run(dragoman.connect('cat').__aenter__())",
        "from dragoman.host import Host; Host()",
    ],
)
def test_the_library_says_so_as_an_error_of_its_own(program: str) -> None:
    done = elsewhere(program)
    assert done.stderr.splitlines()[-1].startswith("dragoman.errors.UnsupportedSystem: this needs a Unix system")


@pytest.mark.parametrize("words", [("agents", "list"), ("setup", "zed"), ("--help",), ("completion", "bash")])
def test_commands_that_need_no_unix_work(words: tuple[str, ...]) -> None:
    done = command(*words)
    assert done.returncode == 0 and done.stdout


# Files, whatever the locale


def test_files_are_read_and_written_as_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    """No default encoding is used, which Python tells of on request."""
    config = tmp_path / "config" / "dragoman"
    config.mkdir(parents=True)
    (config / "agents.toml").write_text('[mine]\ncommand = "cat"\ntitle = "Grüße"\n', encoding="utf-8")
    env = {
        **os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_STATE_HOME": str(tmp_path / "state"),
        "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONWARNDEFAULTENCODING": "1",
        "PYTHONIOENCODING": "utf-8",
    }  # fmt: skip
    strict = [sys.executable, "-W", "error::EncodingWarning:dragoman", "-m", "dragoman"]

    def run(*words: str, input: bytes = b"") -> str:
        done = subprocess.run(
            [*strict, *words], input=input, capture_output=True, timeout=PATIENCE, cwd=tmp_path, env=env
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()

    assert "Grüße" in run("agents", "list")
    assert run("run", "--agent", "echo", "-", input="Grüße".encode()) == "Grüße\n"
    assert "Made greeter" in run("new", "agent", "greeter")
    (tmp_path / "a.sh").write_text("#!/bin/sh\nif [ $1 == ä ]; then true; fi\n", encoding="utf-8")
    assert "shell-equals-in-sh" in run("run", "--agent", "reviewer", "--permissions", "allow-reads", "/review a.sh")
