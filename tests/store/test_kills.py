"""Agents that are killed, by the hundred."""

from torture.store_kills import kill_agents


def test_200_killed_agents_lose_repeat_and_reorder_nothing() -> None:
    counts = kill_agents(200, seed=61)
    print(dict(counts))
    assert counts["killed in a turn"] > 100
    assert counts["shown"] > 1000
