"""T13: a turn is cancelled at every point it can be, in every way, and is answered exactly once."""

import asyncio
import itertools
import random
from typing import Any

from dragoman import Agent, Turn

from .by_hand import Hand, Ponging, cancel_request, facing_agent, note, request, result

STEPS = 24  # turns of the event loop a whole turn takes, and a few more
WAYS = ("session/cancel", "$/cancel_request", "both", "twice", "in one chunk")


class Busy(Ponging):
    """A turn with a tool, a question, a file and a terminal in it."""

    async def answer(self, turn: Turn) -> None:
        await turn.say("first")
        await asyncio.sleep(0)
        async with turn.tool("Edit", kind="edit") as call:
            if await turn.ask(call):
                text = await turn.read("/a")
                await call.text(text)
            async with turn.terminal("true") as terminal:
                await terminal.wait()
        await turn.say("last")


class Yielding(Ponging):
    """A turn of many small steps, none of which waits for the client."""

    async def answer(self, turn: Turn) -> None:
        for number in range(STEPS):
            await turn.say(str(number))
            await asyncio.sleep(0)


ANSWERS: dict[str, Any] = {
    "session/request_permission": {"outcome": {"outcome": "selected", "optionId": "allow"}},
    "fs/read_text_file": {"content": "x"},
    "terminal/create": {"terminalId": "t1"},
    "terminal/wait_for_exit": {"exitCode": 0},
    "terminal/release": {},
}


async def cancel_everywhere(agent: type[Agent], steps: int = STEPS) -> dict[str, int]:
    """Cancel the same turn after each number of steps of the event loop, in each way."""
    tried = 0
    async with facing_agent(agent) as hand:
        for way, step in itertools.product(WAYS, range(steps)):
            await _cancel(hand, f"{way} at {step}", way, step, random.Random(0))
            tried += 1
    return {"turns": tried}


async def cancel_anyhow(agent: type[Agent], count: int, seed: int) -> dict[str, int]:
    """Cancel so many turns somehow, somewhen, with a client that answers now sooner, now later."""
    async with facing_agent(agent) as hand:
        for number in range(count):
            dice = random.Random(seed * 1_000_000 + number)
            await _cancel(hand, f"turn {number}", dice.choice(WAYS), dice.randrange(STEPS * 2), dice)
    return {"turns": count}


async def _cancel(hand: Hand, id: str, way: str, step: int, dice: random.Random) -> None:
    session = (await hand.ask("session/new", {"cwd": "/", "mcpServers": []}))["result"]["sessionId"]
    prompt = request(id, "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]})
    whole, one = note("session/cancel", {"sessionId": session}), cancel_request(id)
    seen: list[dict[str, Any]] = []
    if way == "in one chunk":
        hand.send(prompt, one)
    else:
        hand.send(prompt)
        seen = await _steps(hand, step, dice)
        hand.send(
            *{"session/cancel": [whole], "$/cancel_request": [one], "both": [whole, one], "twice": [whole, whole]}[
                way
            ]
        )
    _check(id, seen + await _rest(hand, id, seen))


async def _steps(hand: Hand, count: int, dice: random.Random) -> list[dict[str, Any]]:
    """Let the loop turn so many times, answering what is asked meanwhile, if not always at once."""
    seen: list[dict[str, Any]] = []
    unanswered: list[dict[str, Any]] = []
    for _ in range(count):
        await asyncio.sleep(0)
        unanswered += hand.received()
        while unanswered and dice.random() < 0.7:
            seen.append(_answered(hand, unanswered.pop(0)))
    return seen + [_answered(hand, message) for message in unanswered]


async def _rest(hand: Hand, id: str, seen: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Everything up to the turn's answer, and what a ping brings to light after it."""
    messages: list[dict[str, Any]] = []
    while not any(message.get("id") == id for message in [*seen, *messages]):
        messages.append(_answered(hand, await hand.receive()))
    return messages + await hand.ping()


def _answered(hand: Hand, message: dict[str, Any]) -> dict[str, Any]:
    if "method" in message and "id" in message:
        hand.send(result(message["id"], ANSWERS[message["method"]]))
    return message


def _check(id: str, messages: list[dict[str, Any]]) -> None:
    """One answer; no update after it; every question of the turn answered or taken back; terminals released."""
    answers = [at for at, message in enumerate(messages) if message.get("id") == id and "method" not in message]
    assert len(answers) == 1, messages
    answer = messages[answers[0]]
    if "error" in answer:
        assert answer["error"]["code"] == -32800, answer
    else:
        assert answer["result"]["stopReason"] in ("cancelled", "end_turn"), answer
    late = [message for message in messages[answers[0] :] if message.get("method") == "session/update"]
    assert not late, late
    opened = [m for m in messages if m.get("method") == "terminal/create"]
    released = [m for m in messages if m.get("method") in ("terminal/release", "$/cancel_request")]
    assert len(released) >= len(opened), messages
