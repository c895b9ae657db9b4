"""initialize: versions, capabilities, and what may happen before and after."""

import pytest

from dragoman import AgentStartError, Client
from dragoman import schema as s
from dragoman.testing import Echo, RecordingClient, raw_agent

from .cast import Modest, Unwritten
from .reading import open_session, tell


async def test_each_side_learns_who_the_other_is(connect):
    async with connect() as client:
        assert client.agent_info == s.Implementation(name="testy", version="1.0", title="Testy")


async def test_an_agent_without_a_name_goes_by_its_class(connect):
    async with connect(Modest) as client:
        assert client.agent_info.name == "Modest"
        assert client.agent_info.version


async def test_an_agent_offers_what_its_author_wrote(connect):
    async with connect() as client:
        offers = client.agent_capabilities
        assert offers.load_session
        assert offers.prompt_capabilities == s.PromptCapabilities(image=True, audio=True, embedded_context=True)
        assert offers.mcp_capabilities == s.McpCapabilities(http=True, sse=True, acp=True)
        assert offers.providers == s.ProvidersCapabilities()
        instead = s.SessionSystemPromptModeCapabilities(override=s.SessionSystemPromptOverrideCapabilities())
        assert offers.session_capabilities == s.SessionCapabilities(
            list=s.SessionListCapabilities(),
            delete=s.SessionDeleteCapabilities(),
            resume=s.SessionResumeCapabilities(),
            close=s.SessionCloseCapabilities(),
            fork=s.SessionForkCapabilities(),
            archive=s.SessionArchiveCapabilities(),
            status=s.SessionStatusCapabilities(),
            title=s.SessionTitleCapabilities(),
            additional_directories=s.SessionAdditionalDirectoriesCapabilities(),
            system_prompt=s.SessionSystemPromptCapabilities(mode=instead),
        )
        assert offers.auth == s.AgentAuthCapabilities(
            logout=s.LogoutCapabilities(), status=s.AuthStatusCapabilities()
        )


async def test_an_agent_that_only_answers_prompts_offers_nothing_else(connect):
    async with connect(Modest) as client:
        assert client.agent_capabilities == s.AgentCapabilities(
            session_capabilities=s.SessionCapabilities(close=s.SessionCloseCapabilities())
        )


async def test_capabilities_are_markers_on_the_wire(speak):
    async with speak(Modest) as wire:
        offers = (await wire.initialize())["result"]["agentCapabilities"]
        assert offers.get("loadSession", False) is False
        assert offers["sessionCapabilities"] == {"close": {}}


@pytest.mark.parametrize("version", [0, 2, 99])
async def test_any_version_asked_for_is_answered_with_ours(speak, version):
    async with speak() as wire:
        assert (await wire.initialize(protocolVersion=version))["result"]["protocolVersion"] == 1


async def test_a_version_that_is_none_is_refused_and_the_next_try_counts(speak):
    async with speak() as wire:
        for nonsense in ("1", None, 1.5, -1, 65536, True, [1], {}):
            assert (await wire.initialize(protocolVersion=nonsense))["error"]["code"] == -32602
        assert (await wire.request("initialize", {}))["error"]["code"] == -32602
        assert (await wire.initialize())["result"]["protocolVersion"] == 1
        assert "result" in await wire.request("session/new", {"cwd": "/", "mcpServers": []})


async def test_requests_before_initialize_are_refused(speak):
    async with speak() as wire:
        for method in ("session/new", "session/prompt", "_testy/ping", "unheard/of"):
            assert (await wire.request(method))["error"]["code"] == -32600
        assert "result" in await wire.initialize()


async def test_notifications_and_responses_before_initialize_are_ignored(speak):
    async with speak() as wire:
        wire.tell("session/cancel", {"sessionId": "s"})
        wire.tell("_testy/tick", {"n": 1})
        wire.tell("unheard/of")
        wire.send({"id": 1, "result": {}})
        answer = await wire.initialize()
        assert "result" in answer
        assert (await wire.request("_testy/ping", {"a": 1}))["result"] == {"pong": {"a": 1}}


async def test_initializing_twice_is_refused_and_changes_nothing(speak):
    async with speak() as wire:
        await wire.initialize()
        assert (await wire.initialize())["error"]["code"] == -32600
        assert "result" in await wire.request("session/new", {"cwd": "/", "mcpServers": []})


async def test_what_does_not_fit_among_capabilities_counts_as_not_offered(speak):
    async with speak() as wire:
        odd = {"fs": "everything", "terminal": "yes", "session": 7, "plan": None, "futuristic": {"x": []}}
        assert "result" in await wire.initialize(clientCapabilities=odd, clientInfo={"name": 5})
        session = (await wire.request("session/new", {"cwd": "/", "mcpServers": []}))["result"]["sessionId"]
        prompt = [{"type": "text", "text": "read a.txt"}]
        answer = await wire.request("session/prompt", {"sessionId": session, "prompt": prompt})
        assert answer["error"]["code"] == -32603  # and was not asked for the file


async def test_an_agent_nobody_wrote_still_shakes_hands(connect):
    async with connect(Unwritten) as client:
        assert client.agent_info.name == "Unwritten"


async def test_the_smallest_agent_answers(connect):
    async with connect(Echo) as client:
        assert await tell(await client.new_session(), "hello\nworld") == "hello\nworld"


async def test_a_second_connection_starts_afresh(connect):
    async with connect() as first:
        session = await open_session(first)
    async with connect() as second:
        assert await second.list_sessions() == []
        assert second.agent_info == first.agent_info
    assert session.client.closed


# What a client says


async def test_a_client_offers_what_its_author_wrote():
    class Reader(Client):
        async def read_text_file(self, params):
            return s.ReadTextFileResponse(content="")

    offers = Reader().capabilities()
    assert offers.fs == s.FileSystemCapabilities(read_text_file=True)
    assert not offers.terminal
    assert offers.elicitation is None
    everything = RecordingClient().capabilities()
    assert everything.fs == s.FileSystemCapabilities(read_text_file=True, write_text_file=True)
    assert everything.terminal
    assert everything.elicitation.form is not None
    assert everything.elicitation.url is not None


async def test_a_client_asks_for_its_version_and_tells_who_it_is_and_what_it_lends():
    async with raw_agent(Client()) as (client, wire):
        assert wire.greeting["protocolVersion"] == 1
        assert wire.greeting["clientInfo"]["name"] == "dragoman"
        assert wire.greeting["clientCapabilities"].get("fs", {}) == {}
        assert "terminal" not in wire.greeting["clientCapabilities"]
        assert client.agent_capabilities == s.AgentCapabilities()
        assert client.agent_info is None
    async with raw_agent() as (client, wire):
        assert wire.greeting["clientInfo"]["name"] == "recording-client"
        assert wire.greeting["clientCapabilities"]["fs"] == {"readTextFile": True, "writeTextFile": True}
        assert wire.greeting["clientCapabilities"]["terminal"] is True


@pytest.mark.parametrize("version", [0, 2, 99])
async def test_a_client_hangs_up_on_a_version_it_does_not_speak(version):
    with pytest.raises(AgentStartError, match=f"version {version}"):
        async with raw_agent(protocolVersion=version):
            pass


async def test_capabilities_an_agent_garbles_count_as_not_offered():
    garbled = {"loadSession": "yes", "sessionCapabilities": 3}
    async with raw_agent(agentCapabilities=garbled, authMethods=7) as (client, _):
        assert client.agent_capabilities == s.AgentCapabilities()
        assert client.auth_methods == []
