"""fs/read_text_file and fs/write_text_file."""

import pytest

from dragoman import Client, Error
from dragoman import schema as s
from dragoman.testing import RecordingClient

from .reading import open_session, play, tell

POEM = "one\ntwo\nthree\nfour\n"


async def test_a_file_is_read_through_the_client(connect):
    async with connect(client=RecordingClient(files={"/poem": POEM})) as client:
        session = await open_session(client)
        assert await tell(session, "read /poem") == POEM
        assert client.requests == [s.ReadTextFileRequest(session_id=session.id, path="/poem")]


async def test_some_lines_of_a_file_can_be_read(connect):
    async with connect(client=RecordingClient(files={"/poem": POEM})) as client:
        session = await open_session(client)
        assert await tell(session, "read /poem 2") == "two\nthree\nfour\n"
        assert await tell(session, "read /poem 2 2") == "two\nthree\n"
        assert await tell(session, "read /poem 9 1") == ""


async def test_relative_paths_are_of_the_sessions_directory(connect):
    async with connect(client=RecordingClient(files={"/work/a/b": "here"})) as client:
        session = await open_session(client, "/work")
        assert await tell(session, "read a/b") == "here"
        assert await tell(session, "read ./x/../a/b") == "here"
        assert {request.path for request in client.requests} == {"/work/a/b"}


async def test_a_file_is_written_through_the_client(connect):
    async with connect() as client:
        session = await open_session(client, "/work")
        assert await tell(session, "write new.txt Grüße, 世界 \U0001f600") == "Wrote 11 characters."
        assert client.files == {"/work/new.txt": "Grüße, 世界 \U0001f600"}
        await session.prompt("write new.txt again")
        assert client.files == {"/work/new.txt": "again"}


async def test_a_missing_file_is_an_error_the_agent_sees(connect):
    async with connect() as client:
        session = await open_session(client)
        with pytest.raises(Error, match="Resource not found: /nowhere"):
            await session.prompt("read /nowhere")
        assert await tell(session, "echo on") == "on"


async def test_a_large_file_passes_whole(connect):
    content = "0123456789abcdef" * 131072  # two megabytes
    async with connect(client=RecordingClient(files={"/large": content})) as client:
        session = await open_session(client)
        assert await tell(session, "read /large") == content


async def test_what_a_client_does_not_lend_is_not_asked_of_it(connect):
    class Reader(Client):
        async def read_text_file(self, params):
            return s.ReadTextFileResponse(content="read")

    async with connect(client=Reader()) as client:
        session = await open_session(client)
        assert await tell(session, "read /a") == "read"
        with pytest.raises(Error):
            await session.prompt("write /a b")
    async with connect(client=Client()) as client:
        session = await open_session(client)
        with pytest.raises(Error):
            await session.prompt("read /a")


async def test_a_client_that_answers_null_has_written(speak):
    async with speak() as wire:
        await wire.initialize(clientCapabilities={"fs": {"writeTextFile": True}})
        session = (await wire.request("session/new", {"cwd": "/", "mcpServers": []}))["result"]["sessionId"]
        params = {"sessionId": session, "prompt": [{"type": "text", "text": "write /a b"}]}
        turn = wire.ask("session/prompt", params)
        while (message := await wire.receive()).get("method") != "fs/write_text_file":
            pass
        assert message["params"] == {"sessionId": session, "path": "/a", "content": "b"}
        wire.send({"id": message["id"], "result": None})
        assert (await wire.answer(turn))["result"] == {"stopReason": "end_turn"}


async def test_a_handler_that_fails_in_the_client_fails_the_turn_and_nothing_else(connect):
    class Broken(RecordingClient):
        async def read_text_file(self, params):
            raise OSError("disk on fire")

    async with connect(client=Broken()) as client:
        session = await open_session(client)
        with pytest.raises(Error) as caught:
            await session.prompt("read /a")
        assert "on fire" not in str(caught.value)
        assert (await play(session, "echo on"))[-1].stop_reason == "end_turn"
