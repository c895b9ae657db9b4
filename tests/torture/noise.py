"""T07: an agent that prints its log to the wire, between the messages of a real conversation."""

import asyncio
import random
from typing import Any

import msgspec

from dragoman import Client
from dragoman.events import Method

from .by_hand import Hand, facing_client, result, update

ASK = Method("_ask", Any, dict[str, Any])

LINES = (
    b"[INFO] server listening",
    b"\x1b[32mready\x1b[0m",
    b"> ",
    b"null",
    b"42",
    b'"done"',
    b"true",
    b"[]",
    b'["a","b"]',
    b'{"level":"info","msg":"hello"}',
    b'{"id":%d,"level":"info"}',
    b'{"id":%d,"result":{"number":-1},"level":"info"}',
    b'{"id":"%d","result":{"number":-1},"time":5}',
    b'{"id":%d,"method":"session/update","params":{},"msg":"sent"}',
    b'{"jsonrpc":"1.0","id":%d,"result":{"number":-1},"took":"3ms"}',
    b'sent: {"jsonrpc":"2.0","id":%d,"result":{"number":-1}}',
    b'got {"jsonrpc":"2.0","id":%d,"method":"_ask","params":{}}',
    b"Traceback (most recent call last):",
    b'  File "x.py", line 1, in <module>',
    b"{'id': %d}",
    b'{"jsonrpc":"2.0","id":%d,"resu',
    b"\xff\xfe\x00",
    b"%PDF-1.4",
    b"Debugger attached.",
    b"   ",
    b"npm WARN deprecated",
)


async def babble(noise: int, real: int, seed: int) -> dict[str, int]:
    """Have `real` calls answered and as many updates delivered among `noise` lines of anything else."""
    dice = random.Random(seed)
    async with facing_client(wire="stdio") as (client, hand):
        asking = [asyncio.create_task(client.connection.call(ASK, {"number": n})) for n in range(real // 2)]
        asked = {message["params"]["number"]: message["id"] for message in [await hand.receive() for _ in asking]}
        frames = [msgspec.json.encode(result(asked[n], {"number": n})) for n in asked]
        dice.shuffle(frames)
        numbers = list(range(real - len(frames)))
        lines = [noisy(dice, real) for _ in range(noise)]
        for n in numbers:
            frames.insert(n * 2, msgspec.json.encode(update("s1", str(n))))
        await _interleave(hand, lines, frames, dice)
        async with asyncio.timeout(30):
            answers = await asyncio.gather(*asking)
        spoken = await hand.ping()
        return {
            "answered": sum(answer["number"] == n for n, answer in enumerate(answers)),
            "delivered": sum(text == str(n) for n, text in zip(numbers, _texts(client), strict=True)),
            "spoken": len(spoken),
        }


def noisy(dice: random.Random, ids: int) -> bytes:
    line = dice.choice(LINES)
    return line % dice.randint(1, ids) if b"%d" in line else line


async def _interleave(hand: Hand, lines: list[bytes], frames: list[bytes], dice: random.Random) -> None:
    """Everything in its order, noise and messages by turns."""
    noise, messages = iter(lines), iter(frames)
    are_noise = [True] * len(lines) + [False] * len(frames)
    dice.shuffle(are_noise)
    mixed = [next(noise if is_noise else messages) for is_noise in are_noise]
    for start in range(0, len(mixed), 500):
        hand.send(*mixed[start : start + 500])
        await hand.transport.drain()
        await asyncio.sleep(0)


def _texts(client: Client) -> list[str]:
    return [update.content.text for update in client.session("s1").backlog()]
