"""What a turn says, as it is on the wire: frames that are made around each text are what its types would give."""

import json
import os

import pytest

from dragoman import AgentSession, Turn, codec
from dragoman import schema as s
from dragoman.agent import turn as turns
from dragoman.connection import Connection
from dragoman.envelope import Notification
from dragoman.roles import RemoteClient
from dragoman.transports import Hear

TEXTS = [
    "plain",
    "",
    "?",
    '"quoted" \\ and\nbroken',
    "100 % ü 漢 🙂",
    "half a character: \ud83d",
    "x" * 5000,
    "{" * 300,
]


class Kept:
    """A wire that keeps what it is sent."""

    queued = 0

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def listen(self, hear: Hear, ended: object) -> None: ...
    def hold(self) -> None: ...
    def resume(self) -> None: ...
    async def drain(self) -> None: ...
    async def close(self) -> None: ...

    def send(self, frames: list[bytes]) -> None:
        self.frames += frames

    async def why_ended(self) -> Exception:
        return EOFError()


class Watched(RemoteClient):
    """A client whose updates are looked at before they are sent."""

    def update(self, params: s.SessionNotification) -> None:
        self.seen = params
        super().update(params)


def started(wire: Kept, session_id: str, kind: type[RemoteClient] = RemoteClient) -> Turn:
    session = AgentSession(kind(Connection(wire)), session_id, "/")
    return Turn(session, s.PromptRequest(session_id=session_id, prompt=[]))


@pytest.mark.parametrize("session_id", ["sess_1", '?"text":"?"%b', "ü"])
async def test_a_text_that_is_said_has_the_frame_its_update_would_have(session_id: str) -> None:
    for kind in (s.AgentMessageChunk, s.AgentThoughtChunk):
        turn = started(wire := Kept(), session_id)
        for text in TEXTS:
            await (turn.say(text) if kind is s.AgentMessageChunk else turn.think(text))
        await turn.client.wire.room()
        id = json.loads(wire.frames[0])["params"]["update"]["messageId"]
        chunks = [kind(content=s.TextContent(text=text), message_id=id) for text in TEXTS]
        updates = [s.SessionNotification(session_id=session_id, update=chunk) for chunk in chunks]
        assert wire.frames == [codec.encode(Notification("session/update", update)) for update in updates]


async def test_whoever_overrides_update_sees_each_text() -> None:
    turn = started(Kept(), "s", Watched)
    for text in TEXTS[:3]:
        await turn.say(text)
        assert isinstance(turn.client, Watched)
        assert isinstance(turn.client.seen.update, s.AgentMessageChunk)
        assert turn.client.seen.update.content == s.TextContent(text=text)


async def test_messages_have_ids_of_their_own_also_in_a_fork() -> None:
    turn = started(wire := Kept(), "s")
    forked = number_in_a_fork()
    for _ in range(3):
        await turn.say("one message")
        await turn.plan("a step")
    await turn.client.wire.room()
    updates = [json.loads(frame)["params"]["update"] for frame in wire.frames]
    ids = [int(update["messageId"], 16) for update in updates if "messageId" in update]
    assert len(set(ids)) == 3
    assert abs(forked - ids[0]) > 1000


def number_in_a_fork() -> int:
    """The number that the next message would have in a fork of this process."""
    source, sink = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.write(sink, b"%d" % next(turns._message_numbers))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(sink)
    with os.fdopen(source) as told:
        return int(told.read())
