"""Microseconds per step of our own hot paths, in one process: for tuning, not for comparing.

python micro.py [NAME ...]      each step, or those whose names begin like this
"""

import asyncio
import sys
import time
from collections.abc import Callable
from functools import partial
from inspect import isawaitable
from itertools import count
from typing import Any

import msgspec
from spelling_agent import SPELLINGS, TEXT, spelt
from work import CHUNK, LARGE, document

from dragoman import AgentSession, Client, Turn, codec
from dragoman import schema as s
from dragoman.connection.connection import Connection
from dragoman.connection.remotes import RemoteClient
from dragoman.dialects import NAMES
from dragoman.events import Call
from dragoman.framing import LineFramer, check, join_lines
from dragoman.roles import ClientRole, methods
from dragoman.rpc import Peer
from dragoman.transports import Hear
from dragoman.transports.translating import TranslatingTransport

ROUNDS, SECONDS = 200, 0.002  # each step is repeated in many short rounds, and the best counts: machines are busy
REPEATED = 10  # calls between two looks at the clock

UPDATE, READ = methods(ClientRole)["update"], methods(ClientRole)["read_text_file"]
READ_NOTHING = msgspec.Raw(b'{"content":""}')  # what a request is answered: bytes, which nobody checks again


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


class Kept(Nowhere):
    """One that also keeps what it was last sent."""

    def send(self, frames: list[bytes]) -> None:
        self.frames = frames


def chunk() -> s.SessionNotification:
    content = s.AgentMessageChunk(content=s.TextContent(text=CHUNK), message_id="0123456789ab")
    return s.SessionNotification(session_id="sess_0123456789abcdef", update=content)


def sent(method: str, params: object, **members: object) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", **members, "method": method, "params": params})


def _reading() -> Peer:
    """A peer that answers what a client answers."""
    made, known = Peer(), methods(ClientRole).values()
    made.answer({m.name: m for m in known if m.is_request}, {m.name: m for m in known if not m.is_request})
    return made


def _called(peer: Peer, line: bytes) -> None:
    call = peer.receive(line)
    assert isinstance(call, Call)
    peer.reply(call.key, READ_NOTHING)
    peer.take()


def _answered(line: bytes) -> None:
    asking = Peer()
    asking.call(READ, {})
    asking.receive(line)


async def steps() -> dict[str, Callable[[], Any]]:
    """Each step by name; what it gives is awaited if it can be."""
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

    prompts = count(1)  # whose numbers are also the ids of the requests

    async def turn_of_100() -> None:
        prompt = session.prompt("go")
        stopped = b'{"jsonrpc":"2.0","id":%d,"result":{"stopReason":"end_turn"}}' % next(prompts)
        wire.hear([*[frame] * 100, stopped])
        async for _ in prompt:
            pass

    translated: dict[str, Callable[[], Any]] = {}
    for name in (name for name in NAMES if name not in ("v1", "v2")):
        said, heard = Kept(), Nowhere()
        speaking, hearing = TranslatingTransport(said, "client", name), TranslatingTransport(heard, "agent", name)
        hearing.listen(lambda frames: None, lambda: None)
        speaking.send([frame])
        translated[f"to {name}"] = partial(speaking.send, [frame])
        translated[f"from {name}"] = partial(heard.hear, [*said.frames])

    received: dict[str, Callable[[], Any]] = {}
    for spelling in SPELLINGS:
        text = {"type": "text", "text": TEXT}
        update = {"sessionUpdate": "agent_message_chunk", "content": text}
        params_of_it = {"sessionId": notification.session_id, "update": update}
        line = spelt(spelling, {"method": UPDATE.name, "params": params_of_it}).rstrip()
        received[f"chunk {spelling}"] = partial(_reading().receive, line)
        call = {"id": 1, "method": READ.name, "params": {"sessionId": "s", "path": "/für"}}
        received[f"call {spelling}"] = partial(_called, _reading(), spelt(spelling, call).rstrip())
        answer = spelt(spelling, {"id": 1, "result": {"content": "für"}}).rstrip()
        received[f"answer {spelling}"] = partial(_answered, answer)

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
        "turn of 100": turn_of_100,
        "say": lambda: turn.say(CHUNK),
        "encode 1 MiB": lambda: codec.encode(s.ReadTextFileResponse(content=document(LARGE))),
        "receive 1 MiB": reply,
        "check 1 MiB": lambda: check(large),
        **received,
        **translated,
    }


async def microseconds(step: Callable[[], Any]) -> float:
    """The best of many short rounds, per call."""
    waits = isawaitable(outcome := step())
    if waits:
        await outcome
    best = float("inf")
    for _ in range(ROUNDS):
        calls, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < SECONDS:
            for _ in range(REPEATED):
                if waits:
                    await step()
                else:
                    step()
            calls += REPEATED
        best = min(best, elapsed / calls)
    return best * 1e6


async def main(names: list[str]) -> None:
    for name, step in (await steps()).items():
        if not names or name.startswith(tuple(names)):
            print(f"{name:16} {await microseconds(step):10.2f} µs")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
