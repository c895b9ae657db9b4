"""Whatever names a request settles it: read as a plain reader reads it, and however it was mangled."""

import asyncio
import random

import pytest
from torture import mangling
from torture.by_hand import Hand, facing_agent, facing_client, result
from torture.readings import compare

from dragoman import RemoteProtocolError
from dragoman.errors import Error
from dragoman.events import Method

ASK = Method("ask", dict, dict)


@pytest.mark.parametrize("seed", range(3))
def test_every_spelling_of_a_message_means_what_a_plain_reader_says(seed: int) -> None:
    found = compare(seed, 5000)
    assert min(found.values()) > 50, found
    assert len(found) == 7, found


def test_ten_thousand_mangled_messages_have_one_outcome_each() -> None:
    found = mangling.mangle(seed=20, count=10_000)
    assert len(found) == len(set(mangling.MANGLINGS))


async def test_every_mangled_answer_fails_its_own_call_and_the_connection_goes_on() -> None:
    dice = random.Random(21)
    async with facing_client(wire="stdio", limit=mangling.LIMIT) as (client, hand):
        calls = [asyncio.create_task(client.connection.call(ASK, {})) for _ in range(400)]
        ids = [(await hand.receive())["id"] for _ in calls]
        for number, id in enumerate(ids):
            line = dice.choice(mangling.MANGLINGS)(dice, mangling.message(dice, id, is_answer=True))
            hand.send(line if number % 2 else result(id, {"number": number}))
        async with asyncio.timeout(30):
            answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [answer for answer in answers if isinstance(answer, Error)] == answers[1::2]
        assert all(isinstance(answer, RemoteProtocolError) for answer in answers[1::2])
        assert answers[::2] == [{"number": number} for number in range(0, 400, 2)]
        assert await hand.ping() == []


async def _answers(hand: Hand, count: int) -> list[object]:
    return [(await hand.receive())["id"] for _ in range(count)]


async def test_every_mangled_question_is_answered_once_and_the_connection_goes_on() -> None:
    dice, ids = random.Random(22), list(range(1000, 1400))
    async with facing_agent(wire="stdio", limit=mangling.LIMIT) as hand:
        for id in ids:
            hand.send(dice.choice(mangling.MANGLINGS)(dice, mangling.message(dice, id, is_answer=False)))
        assert sorted(map(str, await _answers(hand, len(ids)))) == sorted(map(str, ids))
        assert await hand.ping() == []
