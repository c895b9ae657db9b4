"""The author's own state: what is put comes back as it was, or is refused by name."""

import contextlib
import datetime
import logging
import math
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct

from dragoman import Agent, Turn, connect
from dragoman.errors import InternalError
from dragoman.store import Store, durable
from dragoman.store.state import KeptState


class Point(Struct):
    x: int


COMES_BACK: dict[str, Any] = {
    "none": None,
    "nested none": {"a": [None, {"b": None}]},
    "booleans": [True, False],
    "large": 2**63 - 1,
    "float": 1.0,
    "small": 5e-324,
    "text": "ü\u2028\n\x00",
    "empty": {},
    "key": {"": {"\n": []}},
}
CANNOT_BE_KEPT: dict[str, tuple[Any, str]] = {
    "an object": (object(), "an object"),
    "infinity": (math.inf, "inf"),
    "not a number": ([1, math.nan], "nan"),
    "a set": ({1}, "a set"),
    "a tuple": ((1, 2), "a tuple"),
    "bytes": (b"x", "a bytes"),
    "a date": (datetime.date(2026, 1, 1), "a date"),
    "a struct": ({"where": Point(1)}, "['where'] it holds a Point"),
    "an int key": ({"a": {1: 2}}, "['a'] it has the key 1, an int"),
    "half a character": ("\ud83d", "cannot be kept"),
}


class Keeper(Agent):
    """Does to its state what the test says."""

    deed: Callable[[dict[str, Any]], None] = staticmethod(lambda state: None)

    async def answer(self, turn: Turn) -> None:
        type(self).deed(turn.session.state)


async def after(store: Store, *deeds: Callable[[dict[str, Any]], None]) -> tuple[dict[str, Any], list[str]]:
    """A session's state once it is opened again, after deeds of a turn each; and the turns' errors."""
    agent, errors = durable(type("Keeper", (Keeper,), {}), store), list[str]()
    async with connect(agent) as client:
        session = await client.new_session()
        for deed in deeds:
            agent.deed = staticmethod(deed)
            try:
                await session.prompt("go")
            except InternalError as exc:
                errors.append(exc.message)
    found: dict[str, Any] = {}
    async with connect(agent) as client:
        agent.deed = staticmethod(lambda state: found.update(state))
        await (await client.resume_session(session.id)).prompt("go")
    return found, errors


async def test_what_json_has_comes_back_as_it_was(store: Store) -> None:
    found, errors = await after(store, lambda state: state.update(COMES_BACK))
    assert errors == []
    assert found == COMES_BACK
    assert {key: type(value) for key, value in found.items()} == {k: type(v) for k, v in COMES_BACK.items()}


@pytest.mark.parametrize("name", CANNOT_BE_KEPT)
def test_what_cannot_be_kept_is_refused_where_it_is_put(name: str) -> None:
    value, words = CANNOT_BE_KEPT[name]
    ways: list[Callable[[dict[str, Any]], Any]] = [
        lambda state: state.__setitem__("odd", value),
        lambda state: state.setdefault("odd", value),
        lambda state: state.update({"even": 1, "odd": value}),
        lambda state: state.update(odd=value),
        lambda state: state.__ior__({"odd": value}),
    ]
    for way in ways:
        state = KeptState(good=1)
        with pytest.raises(TypeError, match=r"the state 'odd' cannot be kept") as refused:
            way(state)
        assert words in str(refused.value)
        assert state == {"good": 1}


async def test_the_put_that_is_refused_fails_the_turn_and_the_last_good_value_stays(store: Store) -> None:
    with _quiet():
        found, errors = await after(
            store, lambda state: state.update(a=[1], b=2), lambda state: state.update(a={1})
        )
    assert len(errors) == 1
    assert found == {"a": [1], "b": 2}


@pytest.mark.parametrize("name", sorted(CANNOT_BE_KEPT.keys() - {"half a character"}))
async def test_a_value_that_became_no_json_fails_its_turn_by_name_and_loses_nothing(
    store: Store, name: str
) -> None:
    def spoil(state: dict[str, Any]) -> None:
        state["a"].append(CANNOT_BE_KEPT[name][0])
        state["b"] = 3

    with _quiet():
        found, errors = await after(store, lambda state: state.update(a=[1], b=2), spoil)
    assert len(errors) == 1 and "the state 'a' cannot be kept" in errors[0]
    assert found == {"a": [1], "b": 3}


async def test_a_state_replaced_as_a_whole_is_looked_at_when_the_turn_ends(store: Store) -> None:
    class Replacing(Agent):
        async def answer(self, turn: Turn) -> None:
            if turn.text == "replace":
                turn.session.state = {"a": object(), 5: 6, "c": None}  # type: ignore[dict-item]
            else:
                await turn.say(repr(sorted(turn.session.state.items())))

    agent = durable(Replacing, store)
    with _quiet():
        async with connect(agent) as client:
            session = await client.new_session()
            with pytest.raises(InternalError, match=r"'a' cannot be kept.*the state 5 cannot be kept"):
                await session.prompt("replace")
    async with connect(agent) as client:
        told = [u async for u in (await client.resume_session(session.id)).prompt("tell")]
    assert "[('c', None)]" in str(told)


async def test_what_is_removed_stays_removed_and_none_does_not_remove(store: Store) -> None:
    found, _ = await after(
        store,
        lambda state: state.update(a=1, b=2),
        lambda state: state.update(a=None),
        lambda state: state.__delitem__("b"),
    )
    assert found == {"a": None}


@contextlib.contextmanager
def _quiet():  # the failure is in the log, too
    logging.getLogger("dragoman").setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logging.getLogger("dragoman").setLevel(logging.NOTSET)
