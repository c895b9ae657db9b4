"""Conversations by the hundred through every dialect and back: the same but for what the tables lose."""

import os

import pytest

from dragoman.dialects import NAMES, translator

from .random_conversations import MIB, RandomConversation
from .test_matrix import LOSSES as OF_ANY

LOSSES = OF_ANY | {"diff": {"pharo": "new file", "draft": "new file"}}
COUNT = int(os.environ.get("DIALECT_CONVERSATIONS", "200"))
DIALECTS = [name for name in NAMES if translator(name, "agent") is not None]


@pytest.mark.timeout(0 if COUNT > 200 else 120)
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_any_conversation_is_the_same_through_a_dialect(dialect):
    for seed in range(COUNT):
        await check(RandomConversation(dialect, seed), dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_frames_of_twenty_mebibytes_are_no_different(dialect, monkeypatch):
    """The ends are told to send them; a wire with a limit of its own is the matter of `test_edges`."""
    monkeypatch.setattr("dragoman.envelope.MAX_FRAME", 64 * MIB)
    for seed in range(max(1, COUNT // 200)):
        await check(RandomConversation(dialect, f"large-{seed}", 20 * MIB), dialect)


async def check(conversation, dialect):
    seen = await conversation.seen()
    for key, script in conversation.scripts.items():
        for facet, said in script.expected().items():
            heard = seen[key][facet]
            if heard != said:
                row = LOSSES.get(facet, {}).get(dialect)
                assert (dialect, row) in conversation.lost, f"{key} {facet}: {heard!r:.300} is not {said!r:.300}"
