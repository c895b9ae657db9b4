"""Any client with any agent: a whole conversation for every two dialects, the same but for what the tables lose."""

import pytest

from dragoman.dialects import NAMES, translator

from .conversation import Between, converse

DIALECTS = [name for name in ("v1", "v2", "pharo", "cursor", "draft", "jetbrains") if name in NAMES]

# What may be seen differently, and the row of a dialect's losses that says so.
LOSSES = {
    "thoughts": {"pharo": "thoughts"},
    "priorities": {"draft": "plan priorities"},
    "titles": {"draft": "tool titles"},
    "words": {"pharo": "message boundaries"},
}


@pytest.fixture(scope="module")
def seen_by_all():
    return {}


async def plain(seen_by_all):
    """The conversation as it is without anybody between."""
    if not seen_by_all:
        seen_by_all.update(await converse(Between("v1", "v1")))
    return seen_by_all


@pytest.mark.parametrize("agent", DIALECTS)
@pytest.mark.parametrize("client", DIALECTS)
async def test_any_client_talks_with_any_agent(client, agent, seen_by_all):
    expected, between = await plain(seen_by_all), Between(client, agent)
    seen = await converse(between)
    for facet in expected:
        rows = {(name, row) for name, row in LOSSES.get(facet, {}).items() if name in (client, agent)}
        if seen[facet] != expected[facet]:
            assert rows & between.lost, f"{facet}: {seen[facet]} is not {expected[facet]}"
    for name, row in between.lost:
        assert row in translator(name, "agent").losses, f"{name} loses {row} in silence"
