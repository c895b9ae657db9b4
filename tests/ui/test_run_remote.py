"""`run` and `connect` at a gateway: which token is shown to whom, and what is said where nobody answers."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from at_terminal import DRAGOMAN, dragoman, peer
from patience import PATIENCE
from playing import player

GREETING = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'


@pytest.fixture
def gateway(tmp_path: Path, home: Path) -> Iterator[str]:
    """The URL of an agent at a gateway of this user, who has its token."""
    command = [*DRAGOMAN, "serve", "--agent", "testy", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield f"{process.stdout.readline().strip()}/testy"
        process.terminate()


def test_the_token_of_this_machines_gateway_is_shown_to_it(gateway: str, tmp_path: Path) -> None:
    result = dragoman("run", "--agent", gateway, "echo from afar", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, "from afar\n"), result.stderr


def test_a_token_comes_from_a_file_or_a_variable(
    gateway: str, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = home / "state" / "dragoman" / "gateway" / "local.token"
    token = tmp_path / "token"
    token.write_text(local.read_text())
    local.unlink()
    assert dragoman("run", "--agent", gateway, "echo hi", cwd=tmp_path).returncode == 5
    named = dragoman("run", "--agent", gateway, "--token-file", str(token), "echo hi", cwd=tmp_path)
    assert (named.returncode, named.stdout) == (0, "hi\n"), named.stderr
    monkeypatch.setenv("DRAGOMAN_TOKEN", token.read_text())
    assert dragoman("run", "--agent", gateway, "echo hi", cwd=tmp_path).stdout == "hi\n"


def test_the_token_of_this_machines_gateway_goes_to_no_other_machine(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = home / "state" / "dragoman" / "gateway" / "local.token"
    local.parent.mkdir(parents=True)
    local.write_text("dgm_secret")
    heard = bytearray()

    def tunnel(listening: socket.socket) -> None:
        """Stand for another machine, behind a proxy."""
        try:
            connection, _ = listening.accept()
        except OSError:  # nobody came
            return
        with connection:
            assert connection.recv(65536).startswith(b"CONNECT gateway.example:80")
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            heard.extend(connection.recv(65536))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{listening.getsockname()[1]}")
        thread = threading.Thread(target=tunnel, args=(listening,))
        thread.start()
        dragoman("run", "--agent", "ws://gateway.example/acp", "hello", cwd=tmp_path)
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE)
    assert heard.startswith(b"GET /acp ") and b"upgrade: websocket" in heard.lower()
    assert b"authorization" not in heard.lower() and b"dgm_secret" not in heard


def test_no_token_goes_over_an_open_network_in_the_clear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_TOKEN", "dgm_secret")
    result = dragoman("run", "--agent", "ws://gateway.example/acp", "hello", cwd=tmp_path)
    assert result.returncode == 64
    assert "are not sent to ws://gateway.example/acp in the clear; use TLS" in result.stderr


def test_a_token_for_a_program_is_a_mistake(tmp_path: Path) -> None:
    result = dragoman("run", "--agent", "echo", "--token-file", "x", "hello", cwd=tmp_path)
    assert result.returncode == 64 and "--token-file is for an agent that is reached at a URL" in result.stderr


def test_what_is_no_url_is_told_what_one_looks_like() -> None:
    result = dragoman("connect", "foo")
    assert result.returncode == 64
    assert result.stderr == (
        "dragoman: 'foo' is no URL; a URL looks like wss://example.com/acp or ws://127.0.0.1:8765/acp/coder\n"
    )


def test_a_port_where_nobody_listens_is_exit_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        dead = f"ws://127.0.0.1:{taken.getsockname()[1]}/acp"
    result = dragoman("connect", "--patience", "1", dead, input=GREETING)
    assert result.returncode == 1
    assert f"cannot reach {dead}: connection refused" in result.stderr


def test_a_port_that_is_taken_is_exit_1(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = dragoman("serve", "--agent", "echo", "--listen", f"127.0.0.1:{port}", cwd=tmp_path)
    assert result.returncode == 1 and f"cannot listen on 127.0.0.1:{port}" in result.stderr


# What is nobody's wrong usage


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("--version",),
        ("run", "--help"),
        ("agents", "list"),
        ("setup", "zed"),
        ("completion", "bash"),
        ("run", "--agent", "echo", "hello"),
        ("sessions", "list"),
    ],
    ids=" ".join,
)
def test_output_that_cannot_be_written_is_74(words: tuple[str, ...], tmp_path: Path) -> None:
    subprocess.run([*DRAGOMAN, "run", "--agent", "reviewer", "/help"], cwd=tmp_path, capture_output=True)
    with open("/dev/full", "w") as full:
        command = [*DRAGOMAN, *words]
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, timeout=PATIENCE
        )
    assert done.returncode == 74
    assert "dragoman: the output cannot be written: No space left on device\n" in done.stderr


# MCP servers and logins


def test_an_agent_is_given_mcp_servers(tmp_path: Path) -> None:
    servers = ["--mcp", f"files={sys.executable} 'a b.py'", "--mcp", "web=https://mcp.example/mcp"]
    result = dragoman("run", "--agent", "testy", *servers, "where", cwd=tmp_path)
    assert (result.returncode, json.loads(result.stdout)) == (0, [str(tmp_path), "files", "web"]), result.stderr


def test_an_agent_that_takes_no_servers_by_url_is_given_none(tmp_path: Path) -> None:
    command = player(tmp_path)
    result = dragoman("run", "--agent", command, "--mcp", "web=https://mcp.example/mcp", "go", cwd=tmp_path)
    assert result.returncode == 64
    assert "this agent takes no MCP servers by URL, such as 'web'; name a command" in result.stderr


def test_an_agent_that_wants_a_login_says_how_and_is_logged_in_to(tmp_path: Path) -> None:
    refused = dragoman("run", "--agent", peer("locked"), "hello", cwd=tmp_path)
    assert refused.returncode == 5
    assert "With a key; to log in, run again with --login key" in refused.stderr
    result = dragoman("run", "--agent", peer("locked"), "--login", "key", "hello", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, "welcome\n"), result.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--mcp", "files"], "'files' is not NAME=CMD or NAME=URL"),
        (["--mcp", "files='"], "has a command that cannot be read"),
        (["--login", "kee"], "this agent has no login 'kee'; did you mean 'key'?"),
        (["--mode", "plann"], "this agent has no mode 'plann'; did you mean 'plan'?"),
        (["--set", "verbos=on"], "this agent has no option 'verbos'; did you mean 'verbose'?"),
        (["--sesion", "x"], "did you mean --session?"),
        (["--permissions", "alow-all"], "there is no 'alow-all'; did you mean 'allow-all'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_word_nobody_knows_is_answered_with_the_nearest(words: list[str], complaint: str, tmp_path: Path) -> None:
    result = dragoman("run", "--agent", "testy", *words, "hello", cwd=tmp_path)
    assert result.returncode == 64 and complaint in result.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            ["run", "--agent", "claud", "hello"],
            "directory: claud; did you mean 'claude'? See dragoman agents list",
        ),
        (["run", "--agent", "zzzz", "hello"], "no such file or directory: zzzz; see dragoman agents list"),
        (["agents", "show", "revewer"], "there is no agent 'revewer'; did you mean 'reviewer'?"),
        (["setup", "zed", "--agent", "codr"], "there is no agent 'codr'; did you mean 'coder'?"),
        (["rnu"], "there is no 'rnu'; did you mean 'run'?"),
        (
            ["agent", "coder", "--model", "nope:foo"],
            "there is no provider 'nope'; choose from: anthropic, ",
        ),
        (["agent", "coder", "--model", "antropic:x"], "there is no provider 'antropic'; did you mean 'anthropic'?"),
        (["agent", "coder", "--model", "foo"], "'foo' names no model: write it as provider:model"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_that_is_misspelt_is_told_what_to_write(words: list[str], complaint: str, tmp_path: Path) -> None:
    result = dragoman(*words, cwd=tmp_path)
    assert result.returncode in (5, 64) and complaint in result.stderr
    assert len(result.stderr.splitlines()) == 1
