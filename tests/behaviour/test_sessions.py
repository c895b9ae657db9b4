"""A session's life: new, load, resume, fork, list, archive, close, delete, status and title."""

import asyncio
import os

import pytest

from dragoman import InvalidParams, NotOffered, ResourceNotFound
from dragoman import schema as s
from dragoman.testing import raw_agent

from .cast import Loading, Modest
from .reading import open_session, play, said, started, tell

# New


async def test_every_session_has_an_id_of_its_own(connect):
    async with connect() as client:
        ids = {(await client.new_session()).id for _ in range(20)}
        assert len(ids) == 20


async def test_a_session_is_given_its_directories_and_servers(connect):
    servers = [
        s.McpServerStdio(name="local", command="/bin/mcp", args=["-v"], env=[s.EnvVariable(name="A", value="1")]),
        s.McpServerHttp(name="web", url="https://example.com", headers=[s.HttpHeader(name="X", value="y")]),
        s.McpServerSse(name="old", url="https://example.com/sse", headers=[]),
    ]
    async with connect() as client:
        session = await open_session(client, "/work", additional_directories=["/lib"], mcp_servers=servers)
        assert await tell(session, "where") == '["/work", "/lib", "local", "web", "old"]'


async def test_a_client_makes_relative_directories_absolute(connect):
    async with connect() as client:
        session = await open_session(client, "sub", additional_directories=["more"])
        assert await tell(session, "where") == f'["{os.getcwd()}/sub", "{os.getcwd()}/more"]'


async def test_an_agent_refuses_relative_directories(speak):
    async with speak() as wire:
        await wire.initialize()
        for wrong in ({"cwd": "."}, {"cwd": ""}, {"cwd": "/", "additionalDirectories": ["/a", "b"]}):
            assert (await wire.request("session/new", {"mcpServers": [], **wrong}))["error"]["code"] == -32602


async def test_no_word_on_servers_is_none_but_a_wrong_one_is_refused(speak):
    async with speak() as wire:
        await wire.initialize()
        assert "result" in await wire.request("session/new", {"cwd": "/"})
        assert (await wire.request("session/new", {"cwd": "/", "mcpServers": {}}))["error"]["code"] == -32602
        assert (await wire.request("session/new", {"cwd": "/", "mcpServers": [{"name": "x"}]}))["error"]
        assert "result" in await wire.request("session/new", {"cwd": "/", "mcpServers": None})


async def test_an_agent_refuses_what_it_did_not_say_it_takes(connect):
    http = s.McpServerHttp(name="web", url="https://example.com", headers=[])
    async with connect(Modest) as client:
        for workspace in (
            {"additional_directories": ["/lib"]},
            {"mcp_servers": [http]},
            {"mcp_servers": [s.McpServerAcp(name="acp", server_id="1")]},
            {"system_prompt": s.SystemPrompt(mode="append", content=[s.TextContent(text="Be brief.")])},
        ):
            with pytest.raises(InvalidParams):
                await client.new_session(**workspace)
        assert await client.new_session()


async def test_updates_sent_before_the_session_is_answered_are_not_lost(connect):
    async with connect(Loading) as client:
        session = await client.new_session()
        early = [update for _, update in zip(range(2), session.backlog(), strict=False)]
        assert early == [s.CurrentModeUpdate(current_mode_id="plan"), s.SessionInfoUpdate(title="Early")]


# Load, resume, fork


async def test_loading_tells_the_whole_conversation_before_it_answers(connect):
    async with connect() as client:
        session = await open_session(client)
        lived = await play(session, "message\nthought\ntool\nplan\nnotice\nunknown")
        await session.close()
        loaded = await client.load_session(session.id, "/")
        told = [u for u in loaded.backlog() if not isinstance(u, s.AvailableCommandsUpdate)]
        prompt = told.pop(0)
        assert isinstance(prompt, s.UserMessageChunk)
        assert prompt.content.text == "message\nthought\ntool\nplan\nnotice\nunknown"
        assert told == [event for event in lived[:-1] if not isinstance(event, s.Notice)]


async def test_a_loaded_session_goes_on(connect):
    async with connect() as client:
        session = await open_session(client)
        await session.prompt("echo once")
        await session.close()
        loaded = await client.load_session(session.id, "/other")
        list(loaded.backlog())
        assert await tell(loaded, "where") == '["/other"]'
        await loaded.close()
        again = await client.load_session(session.id, "/")
        assert said(again.backlog()) == 'once["/other"]'


async def test_a_loaded_session_has_its_mode_and_options_still(connect):
    async with connect() as client:
        session = await open_session(client)
        await session.set_mode("plan")
        await session.set_config_option("verbose", True)
        await session.close()
        loaded = await client.load_session(session.id, "/")
        assert loaded.modes.current_mode_id == "plan"
        assert {option.id: option.current_value for option in loaded.config_options}["verbose"] is True


async def test_resuming_tells_nothing_again(connect):
    async with connect() as client:
        session = await open_session(client)
        await session.prompt("message")
        await session.close()
        resumed = await client.resume_session(session.id, "/")
        assert resumed.modes.current_mode_id == "code"
        events = await play(resumed, "echo on")
        assert [type(event) for event in events] == [
            s.AvailableCommandsUpdate,
            s.AgentMessageChunk,
            s.PromptResponse,
        ]


async def test_a_fork_knows_what_its_source_knew_and_no_more(connect):
    async with connect() as client:
        session = await open_session(client)
        await session.prompt("echo before")
        fork = await session.fork("/")
        assert fork.id != session.id
        await session.prompt("echo after")
        await fork.close()
        loaded = await client.load_session(fork.id, "/")
        assert said(loaded.backlog()) == "before"


# List and archive


async def test_all_pages_of_the_list_are_read(connect):
    async with connect() as client:
        ids = [(await client.new_session("/")).id for _ in range(12)]
        listed = await client.list_sessions()
        assert [info.session_id for info in listed] == ids[::-1]


async def test_the_list_comes_in_pages_with_cursors(connect):
    async with connect() as client:
        for _ in range(7):
            await client.new_session("/")
        first = await client.agent.list_sessions(s.ListSessionsRequest())
        rest = await client.agent.list_sessions(s.ListSessionsRequest(cursor=first.next_cursor))
        assert (len(first.sessions), len(rest.sessions)) == (5, 2)
        assert rest.next_cursor is None
        with pytest.raises(InvalidParams):
            await client.agent.list_sessions(s.ListSessionsRequest(cursor="page two"))


async def test_the_list_can_be_of_one_directory(connect):
    async with connect() as client:
        await client.new_session("/a")
        here = await client.new_session("/b", additional_directories=["/c"])
        (info,) = await client.list_sessions("/b")
        assert (info.session_id, info.cwd, info.additional_directories) == (here.id, "/b", ["/c"])
        assert await client.list_sessions("/nowhere") == []


async def test_an_archived_session_is_out_of_the_list_but_not_gone(connect):
    async with connect() as client:
        shown, hidden = await client.new_session("/"), await client.new_session("/")
        archive = s.ArchiveSessionRequest(session_id=hidden.id)
        await client.agent.archive_session(archive)
        await client.agent.archive_session(archive)

        async def listed(archived):
            return {info.session_id for info in await client.list_sessions(archived=archived)}

        assert await listed(None) == await listed("exclude") == {shown.id}
        assert await listed("only") == {hidden.id}
        assert await listed("include") == {shown.id, hidden.id}
        with pytest.raises(InvalidParams):
            await listed("sometimes")
        await client.agent.unarchive_session(s.UnarchiveSessionRequest(session_id=hidden.id))
        assert await listed(None) == {shown.id, hidden.id}


async def test_archiving_closes_a_session(connect):
    async with connect() as client:
        session = await open_session(client)
        turn = session.prompt("wait")
        await started(turn, "Waiting.")
        await client.agent.archive_session(s.ArchiveSessionRequest(session_id=session.id))
        assert (await turn).stop_reason == "cancelled"
        status = await client.agent.session_status(s.SessionStatusRequest(session_id=session.id))
        assert status.status == "saved"


# Close and delete


async def test_closing_cancels_what_runs_and_answers_it_first(connect):
    async with connect() as client:
        session = await open_session(client)
        turn = session.prompt("wait")
        await started(turn, "Waiting.")
        closing = asyncio.create_task(session.close())
        rest = [event async for event in turn]
        assert said(rest) == "Stopping."
        assert rest[-1].stop_reason == "cancelled"
        await closing
        with pytest.raises(ResourceNotFound):
            await session.prompt("echo")


async def test_closing_or_deleting_what_is_not_there_is_no_failure(connect):
    async with connect() as client:
        await client.close_session("sess_nobody")
        await client.delete_session("sess_nobody")
        session = await open_session(client)
        await session.close()
        await session.close()
        await session.delete()
        await session.delete()


async def test_a_deleted_session_is_gone_for_good(connect):
    async with connect() as client:
        session = await open_session(client)
        turn = session.prompt("wait")
        await started(turn, "Waiting.")
        deleting = asyncio.create_task(session.delete())
        assert (await turn).stop_reason == "cancelled"
        await deleting
        assert await client.list_sessions() == []
        with pytest.raises(ResourceNotFound):
            await client.load_session(session.id)


# Status and title


async def test_the_status_says_whether_a_session_is_open(connect):
    async with connect() as client:
        session = await open_session(client)
        request = s.SessionStatusRequest(session_id=session.id)
        assert (await client.agent.session_status(request)).status == "open"
        await session.close()
        assert (await client.agent.session_status(request)).status == "saved"
        await client.resume_session(session.id)
        assert (await client.agent.session_status(request)).status == "open"


async def test_a_title_is_given_back_as_it_was_stored(connect):
    async with connect() as client:
        session = await open_session(client)
        assert await session.set_title("  A   talk \n") == "A talk"
        assert (await client.list_sessions())[0].title == "A talk"
        with pytest.raises(InvalidParams):
            await session.set_title(" ")


async def test_a_title_the_agent_gives_shows_in_the_list(connect):
    async with connect() as client:
        session = await open_session(client)
        (update, _) = await play(session, "title Named by Testy")
        assert update.title == "Named by Testy"
        assert (await client.list_sessions())[0].title == "Named by Testy"
        (update, _) = await play(session, "clear_title")
        assert update.title is None
        assert (await client.list_sessions())[0].title is None


# What is not there


async def test_an_unknown_session_is_named_in_the_error(speak):
    extra = {
        "session/prompt": {"prompt": []},
        "session/load": {"cwd": "/", "mcpServers": []},
        "session/resume": {"cwd": "/"},
        "session/fork": {"cwd": "/"},
        "session/set_mode": {"modeId": "plan"},
        "session/set_config_option": {"configId": "model", "value": "large"},
        "session/close": {},
        "session/archive": {},
        "session/unarchive": {},
        "session/status": {},
        "session/set_title": {"title": "x"},
    }
    async with speak() as wire:
        await wire.initialize()
        for method, params in extra.items():
            error = (await wire.request(method, {"sessionId": "sess_nobody", **params}))["error"]
            assert (method, error["code"], error["data"]) == (method, -32002, {"sessionId": "sess_nobody"})


async def test_what_an_agent_does_not_offer_is_not_asked_of_it():
    async with raw_agent() as (client, wire):
        for call in (
            client.load_session("s"),
            client.resume_session("s"),
            client.fork_session("s"),
            client.list_sessions(),
            client.close_session("s"),
            client.delete_session("s"),
            client.session("s").set_title("x"),
            client.agent.archive_session(s.ArchiveSessionRequest(session_id="s")),
            client.agent.unarchive_session(s.UnarchiveSessionRequest(session_id="s")),
            client.agent.session_status(s.SessionStatusRequest(session_id="s")),
        ):
            with pytest.raises(NotOffered):
                await call
        client.agent.notify("_marker")
        assert (await wire.receive())["method"] == "_marker"


async def test_an_agent_answers_method_not_found_for_what_it_has_not(speak):
    async with speak(Modest) as wire:
        await wire.initialize()
        for method in ("session/load", "session/list", "session/fork", "authenticate", "providers/list"):
            error = (await wire.request(method, {"sessionId": "s"}))["error"]
            assert (error["code"], error["data"]) == (-32601, {"method": method})


# Reading


async def test_updates_are_read_across_turns(connect):
    async with connect() as client:
        session = await open_session(client)
        turns = [session.prompt(f"echo {number}") for number in range(3)]
        words = ""
        async for update in session.updates():
            words += said([update])
            if words == "012":
                break
        assert all([(await turn).stop_reason == "end_turn" for turn in turns])


async def test_reading_updates_ends_with_the_connection(connect):
    async with connect() as client:
        session = await open_session(client)
        reading = asyncio.create_task(_read_all(session))
        await asyncio.sleep(0)
    async with asyncio.timeout(2):
        assert await reading == []


async def test_reading_updates_ends_with_the_session(connect):
    async with connect() as client:
        session = await open_session(client)
        reading = asyncio.create_task(_read_all(session))
        try:
            await session.prompt("echo last")
            await session.close()
            done, _ = await asyncio.wait([reading], timeout=2)
            assert done
        finally:
            reading.cancel()


async def _read_all(session):
    return [update async for update in session.updates()]
