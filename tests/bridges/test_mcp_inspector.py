"""The MCP inspector on the command line drives an agent through `dragoman mcp`, a process a request."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE

FOLDER = Path(__file__).parents[2] / "bench" / ".cache" / "mcp-servers"
INSPECTOR = FOLDER / "node_modules" / "@modelcontextprotocol" / "inspector" / "cli" / "build" / "cli.js"
NODE = shutil.which("node") or ""

needs_inspector = pytest.mark.skipif(
    not NODE or not (FOLDER / "ready").exists(),
    reason="the MCP inspector is not installed (scripts/mcp-servers does, where npm is there)",
)
pytestmark = needs_inspector


def homes(directory: Path) -> dict[str, str]:
    return {**os.environ, **{name: str(directory / name) for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")}}


def inspected(directory: Path, *words: str, permissions: str = "ask") -> dict[str, Any]:
    """What the inspector prints of one request to a server that drives Testy."""
    server = [sys.executable, "-I", "-m", "dragoman", "mcp", "--agent", "testy", "--permissions", permissions]
    return printed(inspecting(directory, *server, "--workspace", str(directory), *words))


def inspecting(directory: Path, *words: str) -> subprocess.Popen[str]:
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([NODE, str(INSPECTOR), "--cli", *words], text=True, env=homes(directory), **streams)


def printed(inspector: subprocess.Popen[str]) -> dict[str, Any]:
    stdout, stderr = inspector.communicate(timeout=PATIENCE)
    assert inspector.returncode == 0, stderr
    found: dict[str, Any] = json.loads(stdout)
    return found


class Conversation:
    """A server over HTTP, which a process of the inspector asks for each request."""

    def __init__(self, directory: Path, url: str, token: str) -> None:
        self._directory, self._url, self._token = directory, url, token

    def begin(self, tool: str, **arguments: str) -> subprocess.Popen[str]:
        words = [self._url, "--transport", "http", "--header", f"Authorization: Bearer {self._token}"]
        words += ["--method", "tools/call", "--tool-name", tool]
        for name, value in arguments.items():
            words += ["--tool-arg", f"{name}={value}"]
        return inspecting(self._directory, *words)

    def call(self, tool: str, **arguments: str) -> dict[str, Any]:
        return dict(printed(self.begin(tool, **arguments))["structuredContent"])


@contextlib.contextmanager
def conversation(directory: Path) -> Iterator[Conversation]:
    words = ["mcp", "--agent", "testy", "--workspace", str(directory), "--http", "--port", "0"]
    with subprocess.Popen(
        [sys.executable, "-I", "-m", "dragoman", *words], stdout=subprocess.PIPE, env=homes(directory), text=True
    ) as server:
        assert server.stdout
        url = server.stdout.readline().strip()
        token = Path(server.stdout.readline().removeprefix("token: ").strip()).read_text()
        try:
            yield Conversation(directory, url, token)
        finally:
            server.terminate()
            assert server.wait(PATIENCE) == 0


def prompted(directory: Path, text: str, **options: str) -> dict[str, Any]:
    words = ["--method", "tools/call", "--tool-name", "prompt", "--tool-arg", f"text={text}"]
    return dict(inspected(directory, *words, **options)["structuredContent"])


def test_the_inspector_lists_the_tools(tmp_path: Path) -> None:
    names = [tool["name"] for tool in inspected(tmp_path, "--method", "tools/list")["tools"]]
    assert {"start_session", "prompt", "cancel", "list_sessions", "load_session", "fork_session"} <= set(names)
    assert {"set_mode", "set_option", "close_session"} <= set(names)


def test_the_inspector_prompts_the_agent_and_is_refused_what_it_cannot_be_asked(tmp_path: Path) -> None:
    turn = prompted(tmp_path, "ask allow_once reject_once")
    assert (turn["stopReason"], turn["toolCalls"][0]["status"]) == ("end_turn", "failed")
    assert turn["text"].startswith("Not allowed")
    assert (
        prompted(tmp_path, "ask allow_once reject_once", permissions="allow-all")["text"] == "Allowed: allow_once."
    )


def test_the_inspector_has_two_conversations_and_cancels_one(tmp_path: Path) -> None:
    with conversation(tmp_path) as host:
        first, second = (host.call("start_session")["sessionId"] for _ in range(2))
        assert first != second
        assert host.call("prompt", sessionId=first, text="echo one")["text"] == "one"
        waiting = host.begin("prompt", sessionId=first, text="wait")
        while not host.call("cancel", sessionId=first)["cancelled"]:
            assert waiting.poll() is None  # its turn is just beginning
        assert printed(waiting)["structuredContent"]["stopReason"] == "cancelled"
        assert host.call("prompt", sessionId=second, text="echo two")["text"] == "two"
        refused = printed(host.begin("prompt", sessionId=second, text=f"write {tmp_path / 'new.txt'} words"))
        assert refused["isError"] and "not permitted" in refused["content"][0]["text"]
        assert not (tmp_path / "new.txt").exists()
