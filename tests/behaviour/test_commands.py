"""Slash commands: announced after a session is opened, sent as plain text."""

import pytest

from dragoman import schema as s
from dragoman.testing import Testy

from .reading import open_session, play, tell


async def test_commands_are_announced_after_the_session_is_answered(speak):
    async with speak() as wire:
        await wire.initialize()
        wire.ask("session/new", {"cwd": "/", "mcpServers": []})
        answer, announcement = await wire.receive(), await wire.receive()
        assert answer["result"]["sessionId"] == announcement["params"]["sessionId"]
        update = announcement["params"]["update"]
        assert update["sessionUpdate"] == "available_commands_update"
        echo = next(command for command in update["availableCommands"] if command["name"] == "echo")
        assert echo == {"name": "echo", "description": "Repeat something.", "input": {"hint": "TEXT"}}


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
async def test_commands_of_a_session_whose_id_is_known_are_announced_before_the_answer(speak, method):
    async with speak() as wire:
        await wire.initialize()
        opened = await wire.request("session/new", {"cwd": "/", "mcpServers": []})
        session = opened["result"]["sessionId"]
        await wire.receive()
        await wire.request("session/close", {"sessionId": session})
        wire.ask(method, {"sessionId": session, "cwd": "/", "mcpServers": []})
        told = []
        while "method" in (message := await wire.receive()):
            told.append((message["params"]["sessionId"], message["params"]["update"]["sessionUpdate"]))
        assert told == [(session, "available_commands_update")]
        assert "result" in message


async def test_every_way_to_open_a_session_announces_them(connect):
    async with connect() as client:
        session = await open_session(client)
        await session.close()
        expected = s.AvailableCommandsUpdate(available_commands=list(Testy.commands))
        for opening in (
            client.new_session("/"),
            client.resume_session(session.id, "/"),
            client.load_session(session.id, "/"),
            client.fork_session(session.id, "/"),
        ):
            opened = await opening
            assert await anext(opened.updates()) == expected


async def test_a_command_is_a_prompt_that_starts_with_a_slash(connect):
    async with connect() as client:
        session = await open_session(client)
        assert await tell(session, "/echo hello there") == "hello there"
        assert "flood COUNT SIZE" in await tell(session, "/help")
        assert await tell(session, "/no_such_command") == "/no_such_command"


async def test_commands_can_change(connect):
    async with connect() as client:
        session = await open_session(client)
        update, _ = await play(session, "commands")
        assert [command.name for command in update.available_commands] == ["search", "stop"]
        assert update.available_commands[0].input.hint == "what to look for"
        assert update.available_commands[1].input is None
