"""T68, T69: agents whose disk fails at a chosen call; what their client was shown is stored all the same."""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from dragoman import Client, connect
from dragoman import schema as s
from dragoman.errors import Error, RpcError

AGENT = """
import sys
from dragoman import serve
from dragoman.store import Store, durable
from torture.store_damage import Chronicler
serve(durable(Chronicler, Store(sys.argv[1], level="power")))
"""
TURNS = 6
TESTS = str(Path(__file__).parent.parent)


def works() -> bool:
    """Whether calls can be made to fail here."""
    try:
        done = subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, timeout=10, check=False)
    except OSError:
        return False
    return done.returncode == 0


async def fail_call(calls: str, error: str, when: str) -> Counter[str]:
    """Have a call fail while an agent talks; nothing it showed may be missing afterwards."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as directory:
        store = str(Path(directory) / "store")
        plain = [sys.executable, "-c", AGENT, store]
        inject = f"inject={calls}:error={error}:when={when}"
        failing = ["strace", "-f", "-qq", "-o", os.devnull, "-e", f"trace={calls}", "-e", inject, *plain]
        env = {**os.environ, "PYTHONPATH": TESTS}
        async with connect(plain, env=env) as client:
            id = (await client.new_session("/")).id
        seen: list[str] = []
        try:
            async with asyncio.timeout(60), connect(failing, env=env) as client:
                await _talk(client, id, seen, counts)
        except Error:
            counts["ended"] += 1
        async with connect(plain, env=env) as client:
            told = _texts([*(await client.load_session(id, "/")).backlog()])
        assert told[: len(seen)] == seen or [text for text in told if text in set(seen)] == seen, (
            "something is gone"
        )
        counts["shown"] += len(seen)
    return counts


async def _talk(client: Client, id: str, seen: list[str], counts: Counter[str]) -> None:
    session = await client.resume_session(id, "/")
    for turn in range(TURNS):
        try:
            async for event in session.prompt(f"{turn} 30 50"):
                seen += _texts([event])
            counts["turns"] += 1
        except RpcError as exc:
            assert "cannot be stored" in str(exc), exc
            counts["refused"] += 1


def _texts(events: list[object]) -> list[str]:
    chunks = (event for event in events if isinstance(event, s.AgentMessageChunk))
    return [chunk.content.text for chunk in chunks if chunk.content.text.startswith("<")]  # type: ignore[union-attr]
