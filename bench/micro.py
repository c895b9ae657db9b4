"""Microseconds per step of our own hot paths, in one process: for tuning, not for comparing.

python micro.py [NAME ...]      each step, or those whose names begin like this
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable

import msgspec
from work import CHUNK, LARGE, document

from dragoman import AgentSession, Client, Turn, codec
from dragoman import schema as s
from dragoman.connection import Connection
from dragoman.framing import LineFramer, join_lines
from dragoman.roles import AgentRole, ClientRole, RemoteClient, methods
from dragoman.rpc import Peer
from dragoman.transports import Hear

SECONDS = 0.002  # how long each step is repeated
ROUNDS = 200  # and how often; the best counts, for the machine may be busy

UPDATE, READ = methods(ClientRole)["update"], methods(ClientRole)["read_text_file"]
PROMPT = methods(AgentRole)["prompt"]


class Nowhere:
    """A wire that takes everything and says what it is told to."""

    queued = 0

    def listen(self, hear: Hear, ended: Callable[[], None]) -> None:
        self.hear = hear

    def hold(self) -> None: ...
    def resume(self) -> None: ...
    def send(self, frames: list[bytes]) -> None: ...
    async def drain(self) -> None: ...
    async def why_ended(self) -> Exception:
        return EOFError()

    async def close(self) -> None: ...


def chunk() -> s.SessionNotification:
    content = s.AgentMessageChunk(content=s.TextContent(text=CHUNK), message_id="0123456789ab")
    return s.SessionNotification(session_id="sess_0123456789abcdef", update=content)


def sent(method: str, params: object, **members: object) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", **members, "method": method, "params": params})


async def steps() -> dict[str, Callable[[], object] | Callable[[], Awaitable[object]]]:
    """Each step by name: plain functions, and coroutines for what may wait."""
    notification, frame = chunk(), sent("session/update", chunk())
    params = msgspec.json.encode(notification)

    peer, wire, client = Peer(), Nowhere(), Client()
    connection = Connection(wire)
    client.attach(connection)
    wire.listen(connection._hear, lambda: None)
    peer.answer(*client.answers(ClientRole))
    session = client.session(notification.session_id)

    agent_session = AgentSession(RemoteClient(Connection(Nowhere())), notification.session_id, "/")
    turn = Turn(agent_session, s.PromptRequest(session_id=agent_session.id, prompt=[]))

    def note() -> None:
        peer.note(UPDATE, notification)
        peer.take()

    def hear() -> None:
        wire.hear([frame])
        for _ in session.backlog():
            pass

    block = join_lines([frame] * (64 * 1024 // len(frame)))
    large = msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "result": {"content": document(LARGE)}})

    def reply() -> None:
        asking = Peer()
        asking.call(READ, {})
        asking.receive(large)

    return {
        "encode": lambda: codec.encode(notification),
        "decode": lambda: codec.decode(params, s.SessionNotification),
        "feed 64 KiB": lambda: LineFramer().feed(block),
        "note": note,
        "receive": lambda: peer.receive(frame),
        "hear and read": hear,
        "say": lambda: turn.say(CHUNK),
        "encode 1 MiB": lambda: codec.encode(s.ReadTextFileResponse(content=document(LARGE))),
        "receive 1 MiB": reply,
        "check 1 MiB": lambda: codec.check(large),
    }


async def microseconds(step: Callable[[], object]) -> float:
    """The best of several rounds, per call."""
    best = float("inf")
    for _ in range(ROUNDS):
        count, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < SECONDS:
            for _ in range(10):
                outcome = step()
                if isinstance(outcome, Awaitable):
                    await outcome
            count += 10
        best = min(best, elapsed / count)
    return best * 1e6


async def main(names: list[str]) -> None:
    for name, step in (await steps()).items():
        if not names or name.startswith(tuple(names)):
            print(f"{name:16} {await microseconds(step):10.2f} µs")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
