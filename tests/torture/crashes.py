"""T11: an agent that is killed in the middle of a byte, a frame, a turn."""

import asyncio
import json
import random
import signal
import sys
import time

from dragoman import AgentExited, AgentStartError, Client, Session, connect

from .by_hand import result, update

CHUNKS = 20
SCRIPT = {
    "initialize": [result(1, {"protocolVersion": 1})],
    "session/new": [update("s1", "welcome"), result(2, {"sessionId": "s1"})],
    "session/prompt": [*[update("s1", f"chunk {n}") for n in range(CHUNKS)], result(3, {"stopReason": "end_turn"})],
}
# Answers by rote, and kills itself when so many bytes have left it.
DYING = f"""
import json, os, signal, sys
script, left = {SCRIPT!r}, int(sys.argv[1])
print("dying after", left, "bytes", file=sys.stderr, flush=True)
for line in sys.stdin:
    for message in script[json.loads(line)["method"]]:
        data = json.dumps(message).encode() + b"\\n"
        os.write(1, data[:left])
        if len(data) >= left:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= len(data)
"""
WHOLE = sum(len(json.dumps(message)) + 1 for messages in SCRIPT.values() for message in messages)


async def kill_at_offsets(count: int, seed: int) -> dict[str, float]:
    """Kill so many agents, each after another byte of its turn; gives how long the slowest took to be noticed."""
    print(f"crashes: {count} of {WHOLE} offsets, seed {seed}")
    slowest = 0.0
    for offset in random.Random(seed).choices(range(1, WHOLE + 1), k=count):
        slowest = max(slowest, await kill_at(offset))
        assert asyncio.all_tasks() == {asyncio.current_task()}
    return {"killed": count, "slowest": slowest}


async def kill_at(offset: int) -> float:
    """How long the request took that an agent's death after so many bytes made fail."""
    try:
        async with connect([sys.executable, "-IS", "-c", DYING, str(offset)]) as client:
            return await _last_request(client, offset)
    except AgentStartError as exc:
        _check(exc, offset)
        return 0.0


async def _last_request(client: Client, offset: int) -> float:
    session: Session | None = None
    while True:
        started = time.monotonic()
        try:
            async with asyncio.timeout(5):
                if session is None:
                    session = await client.new_session()
                else:
                    await session.prompt("hello")
        except AgentExited as exc:
            _check(exc, offset)
            assert (type(client.closed), str(client.closed)) == (type(exc), str(exc))
            assert not client.connection._waiting
            assert not client.connection.peer._pending
            return time.monotonic() - started


def _check(exc: AgentExited | AgentStartError, offset: int) -> None:
    assert exc.status == -signal.SIGKILL
    assert exc.stderr.strip() == f"dying after {offset} bytes"
