"""Agents of different principals, each in a sandbox of its own."""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from dragoman.gateway.checks import Checks
from dragoman.gateway.upstream import Hosted

from .house import PATIENCE, Watcher, hosting

pytestmark = [
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
]

OWNER = (1000, 1000)
# An agent of the system's own Python: inside there is no other, unless it is made visible.
PROBE = """
import json, os, subprocess, sys
def answer(id, result): print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    params = message.get("params") or {}
    if message["method"] == "initialize":
        answer(message["id"], {"protocolVersion": 1})
    elif message["method"] == "session/new":
        answer(message["id"], {"sessionId": "s"})
    elif message["method"] == "session/prompt":
        command = params["prompt"][-1]["text"]
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
        content = {"type": "text", "text": done.stdout + done.stderr}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        said = {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}}
        print(json.dumps(said), flush=True)
        answer(message["id"], {"stopReason": "end_turn"})
"""


async def run(watcher: Watcher, session: Any, command: str) -> str:
    before = len(watcher.told.get(session.id, []))
    await session.prompt(command)
    return b"".join(watcher.told[session.id][before:]).decode()


async def test_an_isolated_agent_reaches_its_principal_s_workspace_and_nobody_elses(tmp_path: Path) -> None:
    work = tmp_path / "work"
    for name in ("ann", "bob"):
        (work / name).mkdir(parents=True)
        (work / name / "note.txt").write_text(f"of {name}")
        if os.geteuid() == 0:
            os.chown(work / name, *OWNER)
    (tmp_path / "secret.txt").write_text("of the gateway")
    checks = Checks(workspace=str(work / "{principal}"))
    hosted = {"isolated": True, "env": {"PATH": "/usr/bin:/bin", "KEY": "for the agent"}}
    command = ["/usr/bin/python3", "-c", PROBE]
    async with (
        hosting(tmp_path / "state", command, hosted=hosted, checks=checks) as house,
        house.visit("ann") as ann,
        house.visit("bob") as bob,
    ):
        async with asyncio.timeout(PATIENCE):
            hers, his = await ann.new_session(work / "ann"), await bob.new_session(work / "bob")
            assert "of ann" in await run(ann, hers, "cat note.txt")
            assert "of bob" in await run(bob, his, "cat note.txt")
            assert "for the agent" in await run(ann, hers, "echo $KEY")
            for path in (work / "bob" / "note.txt", tmp_path / "secret.txt", tmp_path / "state" / "gateway.db"):
                assert "No such file" in await run(ann, hers, f"cat {path}")
            await run(ann, hers, "echo mine > new.txt; sleep 1000 >new.log 2>&1 & id -u > who")
            assert (work / "ann" / "new.txt").read_text() == "mine\n"
            assert (work / "ann" / "who").read_text() != "0\n"
            assert "sleep" not in await run(bob, his, "cat /proc/*/cmdline")


def test_what_cannot_be_isolated_is_refused_at_once(tmp_path: Path) -> None:
    from dragoman.gateway.gateway import Gateway
    from dragoman.gateway.sqlite import SqliteEngine
    from dragoman.testing import Echo

    engine = SqliteEngine(tmp_path)
    with pytest.raises(ValueError, match="no command"):
        Gateway(engine, {"a": Hosted(target=Echo, isolated=True)}, checks=Checks(workspace="/srv"))
    with pytest.raises(ValueError, match="no workspace"):
        Gateway(engine, {"a": Hosted(target=["agent"], isolated=True)})
    asyncio.run(engine.close())
