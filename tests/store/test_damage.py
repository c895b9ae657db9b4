"""Stores with damaged files."""

from torture.store_damage import damage_stores


async def test_200_damaged_stores_are_never_blank_and_never_silent() -> None:
    counts = await damage_stores(200, seed=63)
    print(dict(counts))
    assert counts["whole"] > 400
    assert counts["damaged, and said so"] > 20
