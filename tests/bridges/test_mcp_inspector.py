"""The MCP inspector on the command line drives an agent through `dragoman mcp`, a process a request."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE

FOLDER = Path(__file__).parents[2] / "bench" / ".cache" / "mcp-servers"
INSPECTOR = FOLDER / "node_modules" / "@modelcontextprotocol" / "inspector" / "cli" / "build" / "cli.js"
NODE = shutil.which("node") or ""

pytestmark = pytest.mark.skipif(
    not NODE or not (FOLDER / "ready").exists(),
    reason="the MCP inspector is not installed (scripts/mcp-servers does, where npm is there)",
)


def inspected(directory: Path, *words: str, permissions: str = "ask") -> dict[str, Any]:
    """What the inspector prints of one request to a server that drives Testy."""
    server = [sys.executable, "-I", "-m", "dragoman", "mcp", "--agent", "testy", "--permissions", permissions]
    homes = {name: str(directory / name) for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    result = subprocess.run(
        [NODE, str(INSPECTOR), "--cli", *server, "--workspace", str(directory), *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, **homes},
        check=False,
    )
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


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
