"""Scripts for the agent `player`, in the shapes of real agents, and runs of it."""

import json
import subprocess
from pathlib import Path
from typing import Any

from at_terminal import dragoman, peer

Step = dict[str, Any]


def options(*kinds_and_ids: str) -> list[dict[str, str]]:
    """Options written as `kind:id:Name`."""
    split = (text.split(":") for text in kinds_and_ids)
    return [{"kind": kind, "optionId": id, "name": name} for kind, id, name in split]


# As @agentclientprotocol/claude-agent-acp, @google/gemini-cli and @moonshot-ai/kimi-code offer them.
CLAUDE = options("allow_always:allow_always:Always Allow", "allow_once:allow:Allow", "reject_once:reject:Reject")
GEMINI = options(
    "allow_always:proceed_always:Allow for this session",
    "allow_once:proceed_once:Allow",
    "reject_once:cancel:Reject",
)
KIMI = options(
    "allow_once:approve_once:Approve once", "allow_always:approve_always:Approve for this session",
    "reject_once:reject:Reject",
)  # fmt: skip


def diff(path: str, old: str | None, new: str) -> dict[str, Any]:
    return {"type": "diff", "path": path, "oldText": old, "newText": new}


def text(words: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": words}}


def told(id: str, **fields: Any) -> Step:
    return {"update": {"sessionUpdate": "tool_call", "toolCallId": id, **fields}}


def updated(id: str, **fields: Any) -> Step:
    return {"update": {"sessionUpdate": "tool_call_update", "toolCallId": id, **fields}}


def ask(id: str, offered: list[dict[str, str]] = CLAUDE, **call: Any) -> Step:
    return {"ask": {"toolCall": {"toolCallId": id, **call}, "options": offered}}


def write(path: str, content: str, **more: Any) -> Step:
    return {"call": "fs/write_text_file", "params": {"path": path, "content": content, **more}}


def run_in_shell(line: str, *, shell: str = "/bin/bash", env: dict[str, str] | None = None, **more: Any) -> Step:
    """As kimi-code runs a command: a shell, `cd` in front of the line, variables that quieten programs."""
    quiet = {"NO_COLOR": "1", "TERM": "dumb", "GIT_TERMINAL_PROMPT": "0", "SHELL": shell}
    variables = [{"name": name, "value": value} for name, value in (quiet if env is None else env).items()]
    params = {"command": shell, "args": ["-c", line], "env": variables, "cwd": "$CWD", **more}
    return {"call": "terminal/create", "params": params}


def player(directory: Path, *steps: Step, **more: Any) -> str:
    """The command that starts an agent which plays these steps."""
    script = directory / "script.json"
    script.write_text(json.dumps({"steps": steps, **more}))
    return peer("player", str(script))


def played(
    directory: Path, cwd: Path, preset: str, *steps: Step, flags: tuple[str, ...] = (), **more: Any
) -> subprocess.CompletedProcess[str]:
    """A run without a terminal under a preset."""
    agent = player(directory, *steps, **more)
    return dragoman("run", "--agent", agent, "--permissions", preset, *flags, "go", cwd=cwd)


def answers(stdout: str) -> list[Any]:
    """What the client answered the agent, in order."""
    return list(json.loads(stdout.strip().splitlines()[-1]))
