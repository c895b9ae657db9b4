"""A client of version 2 that keeps what it was told has a history told again, and nothing is there twice."""

from pathlib import Path
from typing import Any

from test_negotiation import INFO, spoken_to

from dragoman import Agent, Turn
from dragoman.store import durable
from dragoman.testing import RawWire

HELLO = {"protocolVersion": 2, "info": INFO, "capabilities": {}}


class Talker(Agent):
    async def answer(self, turn: Turn) -> None:
        for word in ("One. ", "Two. "):
            await turn.say(word)
        await turn.think("Hm.")


class Screen:
    """What a client shows that keeps messages by id, as the draft says: a whole message replaces, a chunk adds."""

    def __init__(self) -> None:
        self.messages: dict[str, str] = {}

    def take(self, message: Any) -> None:
        update = message["params"]["update"] if message.get("method") == "session/update" else {}
        id, kind = update.get("messageId"), update.get("sessionUpdate", "")
        if id is not None:
            before = self.messages.get(id, "") if kind.endswith("_chunk") else ""
            content = update["content"] if isinstance(update["content"], list) else [update["content"]]
            self.messages[id] = before + "".join(block["text"] for block in content)


async def ask(wire: RawWire, screen: Screen, method: str, params: Any, *, until_idle: bool = False) -> Any:
    id, result = wire.ask(method, params), None
    while True:
        message = await wire.receive(60)
        screen.take(message)
        if message.get("id") == id and "method" not in message:
            result = message["result"]
            if not until_idle:
                return result
        if until_idle and (message.get("params") or {}).get("update", {}).get("state") == "idle":
            return result


async def test_a_history_told_again_on_another_connection_doubles_nothing(tmp_path: Path) -> None:
    agent, screen = durable(Talker, str(tmp_path)), Screen()
    text = [{"type": "text", "text": "Count."}]
    session = None
    for connection in range(3):
        async with spoken_to(agent) as wire:
            await ask(wire, screen, "initialize", HELLO)
            if session is None:
                session = (await ask(wire, screen, "session/new", {"cwd": "/"}))["sessionId"]
            else:  # the second connection goes on without a history, the third has it told
                start = {"type": "start"} if connection == 2 else None
                opening = {"sessionId": session, "cwd": "/", "replayFrom": start}
                before = dict(screen.messages)
                await ask(wire, screen, "session/resume", opening)
                assert screen.messages == before
            prompt = {"sessionId": session, "prompt": text}
            await ask(wire, screen, "session/prompt", prompt, until_idle=True)
    assert sorted(screen.messages.values()) == sorted(["Count.", "One. Two. ", "Hm."] * 3)
