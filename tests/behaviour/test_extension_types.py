"""The types of extensions: known where the class is defined or the request is made, or refused there by name."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

import dragoman
from dragoman import Agent, Client, Overloaded, RpcError, extension
from dragoman.testing import RecordingClient, raw_agent


class Point(msgspec.Struct):
    x: int = 0


class Other(msgspec.Struct):
    y: int = 0


class Plain:
    pass


class Model(pydantic.BaseModel):
    x: int = 0


@dataclasses.dataclass
class Data:
    x: int = 0


class Typed(TypedDict, total=False):
    x: int


class Answering(Agent):
    class Inner(msgspec.Struct):
        x: int = 0

    @extension("_point")
    async def point(self, params: Point) -> Plain:
        return repr(params)

    @extension("_quoted")
    async def quoted(self, params: "Point") -> Any:  # noqa: UP037  (quoted twice, in effect)
        return repr(params)

    @extension("_inner")
    async def inner(self, anything: Inner) -> Any:
        return anything.x

    @extension("_object")
    async def object(self, params: object) -> Any:
        return params

    @extension("_data")
    async def data(self, params: Data | None) -> Any:
        return params and params.x

    @extension("_typed")
    async def typed(self, params: list[Typed]) -> Any:
        return params

    @extension("_rest")
    async def rest(self, *given):
        return given[0]


async def test_postponed_and_quoted_types_are_read():
    class Local(msgspec.Struct):
        x: int = 0

    class Here(Answering):
        @extension("_local")
        async def local(self, params: Local) -> Any:
            return params.x

    async with asyncio.timeout(10), dragoman.connect(Here) as client:
        ask = client.agent.request
        assert await ask("_point", {"x": 1}) == "Point(x=1)"
        assert await ask("_quoted", {"x": 2}) == "Point(x=2)"
        assert await ask("_inner", {"x": 3}) == 3
        assert await ask("_object", {"x": [4]}) == {"x": [4]}
        assert await ask("_data", {"x": 5}, int) == 5
        assert await ask("_typed", [{"x": 6}], list[Typed]) == [{"x": 6}]
        assert await ask("_rest", {"x": 7}, object) == {"x": 7}
        assert await ask("_local", {"x": 8}) == 8


UNREADABLE = [Plain, Model, Point | Other, list[Plain], dict[str, Model], "Point", Data | Plain]
SHOWN = [getattr(tp, "__name__", str(tp)) for tp in UNREADABLE]


@pytest.mark.parametrize("tp", UNREADABLE, ids=SHOWN)
def test_an_extension_whose_params_cannot_be_read_is_refused_where_it_is_defined(tp):
    async def odd(self, request): ...

    odd.__annotations__["request"] = tp if not isinstance(tp, str) else "Nowhere"
    with pytest.raises(TypeError, match=r"@extension\('_odd'\) on .*odd.*(request|Nowhere)"):
        type("Odd", (Agent,), {"odd": extension("_odd")(odd)})


@pytest.mark.parametrize("tp", UNREADABLE, ids=SHOWN)
async def test_a_result_that_cannot_be_read_is_refused_where_it_is_asked_for(tp):
    async with asyncio.timeout(10), raw_agent() as (client, wire):
        with pytest.raises(TypeError, match="the result of _odd cannot be read"):
            await client.agent.request("_odd", {}, tp)
        client.agent.notify("_marker")
        assert (await wire.receive())["method"] == "_marker", "nothing was sent"


def test_an_extension_that_does_not_take_params_is_refused_where_it_is_defined():
    with pytest.raises(TypeError, match=r"@extension\('_odd'\) on .*Odd.odd is called with self and the params"):

        class Odd(Agent):
            @extension("_odd")
            async def odd(self): ...


class Moody(msgspec.Struct):
    x: int = 0

    def __post_init__(self):
        raise KeyError("moody")


class Trusting(Agent):
    @extension("_moody")
    async def moody(self, params: Moody): ...

    @extension("_moody_too")
    def moody_too(self, params: Moody): ...

    @extension("_ping")
    async def ping(self, params: dict[str, int]) -> Any:
        return params


async def test_a_type_that_raises_fails_its_own_request_and_no_other():
    async with asyncio.timeout(10), dragoman.connect(Trusting) as client:
        client.agent.notify("_moody_too", {})
        asked = [client.agent.request(name, {"x": 1}) for name in ("_moody", "_ping", "_moody", "_ping")]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(answer) for answer in answers] == [dragoman.InternalError, dict] * 2
        with pytest.raises(dragoman.LocalProtocolError, match=r"_ping.*moody"):
            await client.agent.request("_ping", {"x": 1}, Moody)
        assert await client.agent.request("_ping", {"x": 2}) == {"x": 2}


async def test_endless_recursion_between_agent_and_client_ends_with_an_error():
    class Down(Agent):
        @extension("_down")
        async def down(self, params: dict[str, int]):
            return await self.client.request("_down", {"n": params["n"] + 1})

    class Up(RecordingClient):
        @extension("_down")
        async def down(self, params: dict[str, int]):
            return await self.agent.request("_down", {"n": params["n"] + 1})

    async with asyncio.timeout(60), dragoman.connect(Down, Up()) as client:
        with pytest.raises(RpcError) as caught:
            await client.agent.request("_down", {"n": 0})
        assert f"({Overloaded.code})" in str(caught.value)
        assert len(str(caught.value)) < 2000
        with pytest.raises(RpcError):
            await client.agent.request("_other", {})


def test_the_types_of_a_client_are_checked_as_well():
    with pytest.raises(TypeError, match=r"Odd\.odd"):

        class Odd(Client):
            @extension("_odd")
            def odd(self, params: Model): ...
