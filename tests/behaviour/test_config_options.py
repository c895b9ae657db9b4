"""Config options: choices and switches, always told in full."""

import json

import pytest

from dragoman import Client, InvalidParams
from dragoman import schema as s
from dragoman.testing import Testy

from .cast import Modest
from .reading import open_session, play, tell


def values(options):
    return {option.id: option.current_value for option in options}


async def settings(session):
    return json.loads(await tell(session, "settings"))


async def test_a_session_starts_with_every_option_at_its_default(connect):
    async with connect() as client:
        session = await open_session(client)
        assert session.config_options == list(Testy.config_options)


async def test_setting_one_gives_all_of_them_back(connect):
    async with connect() as client:
        session = await open_session(client)
        options = await session.set_config_option("model", "large")
        assert values(options) == {"model": "large", "voice": "low", "verbose": False}
        assert values(session.config_options) == values(options)
        assert (await settings(session))["model"] == "large"


async def test_a_value_may_stand_in_a_group(connect):
    async with connect() as client:
        session = await open_session(client)
        assert values(await session.set_config_option("voice", "high"))["voice"] == "high"
        with pytest.raises(InvalidParams):
            await session.set_config_option("voice", "loud")  # the name of a group


async def test_a_switch_is_flipped(connect):
    async with connect() as client:
        session = await open_session(client)
        assert values(await session.set_config_option("verbose", True))["verbose"] is True
        assert values(await session.set_config_option("verbose", False))["verbose"] is False


async def test_switches_are_only_for_clients_that_show_them(connect):
    class Simple(Client):
        def capabilities(self):
            return s.ClientCapabilities()

    async with connect(client=Simple()) as client:
        session = await open_session(client)
        assert values(session.config_options) == {"model": "small", "voice": "low"}
        assert values(await session.set_config_option("model", "large")) == {"model": "large", "voice": "low"}
        update, _ = await play(session, "options")
        assert values(update.config_options) == {"model": "large", "voice": "low"}


async def test_a_value_that_does_not_fit_is_refused_and_changes_nothing(connect):
    async with connect() as client:
        session = await open_session(client)
        for option, value in (
            ("model", "huge"),
            ("model", ""),
            ("model", True),
            ("verbose", "yes"),
            ("verbose", "true"),
            ("colour", "red"),
        ):
            with pytest.raises(InvalidParams):
                await session.set_config_option(option, value)
        assert await settings(session) == {"mode": "code", "model": "small", "voice": "low", "verbose": False}


async def test_a_truth_value_has_to_say_that_it_is_one(speak):
    async with speak() as wire:
        await wire.initialize(clientCapabilities={"session": {"configOptions": {"boolean": {}}}})
        session = (await wire.request("session/new", {"cwd": "/", "mcpServers": []}))["result"]["sessionId"]
        params = {"sessionId": session, "configId": "verbose", "value": True}
        assert (await wire.request("session/set_config_option", params))["error"]["code"] == -32602
        answer = await wire.request("session/set_config_option", {**params, "type": "boolean"})
        assert answer["result"]["configOptions"][2]["currentValue"] is True


async def test_an_update_tells_all_options(connect):
    async with connect() as client:
        session = await open_session(client)
        await session.set_config_option("verbose", True)
        update, _ = await play(session, "options")
        assert values(update.config_options) == {"model": "small", "voice": "low", "verbose": True}


async def test_options_belong_to_their_session(connect):
    async with connect() as client:
        one, other = await open_session(client), await open_session(client)
        await one.set_config_option("model", "large")
        assert (await settings(other))["model"] == "small"


async def test_an_agent_without_options_has_none_to_set(connect):
    async with connect(Modest) as client:
        session = await client.new_session()
        assert session.config_options == ()
        with pytest.raises(InvalidParams):
            await session.set_config_option("model", "large")
