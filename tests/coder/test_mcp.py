"""Tools of the session's MCP servers in the agent's hands: named, asked about, shown, and never fatal."""

import asyncio
import contextlib
import json
import runpy
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dragoman import schema as s
from dragoman.coder import ScriptedModel, call
from dragoman.coder.context.history import Media, Results

from .desk import BareClient, DiskClient, asked, calls, desk, results, said, updates

pytestmark = pytest.mark.usefixtures("nothing_left")

PEN = Path(__file__).parent.parent / "mcp" / "pen.py"
BROKEN = s.McpServerStdio(name="broken", command="/no/such/program", args=[], env=[])


def servers(*more: s.McpServer) -> dict[str, Any]:
    pen = s.McpServerStdio(name="my pen", command=sys.executable, args=[str(PEN)], env=[])
    return {"mcp_servers": [pen, *more]}


async def test_a_servers_tool_is_offered_asked_about_and_run(tmp_path: Path) -> None:
    steps = [
        call("mcp__my_pen__greet", name="Ada"),
        call("mcp__my_pen__write", path=str(tmp_path / "made")),
        call("mcp__my_pen__fail"),
        "Done.",
    ]
    async with desk(tmp_path, *steps, mode="code", options=servers()) as (session, client, model):
        await session.prompt("Go")
    assert "mcp__my_pen__greet" in {tool.name for tool in model.requests[0].tools}
    assert [(outcome, words) for _, outcome, words in results(model)][:2] == [
        ("success", "Hello, Ada!"),
        ("success", "written"),
    ]
    assert results(model)[2][1] == "failed" and "it cannot be done" in results(model)[2][2]
    assert len(asked(client)) == 3
    assert (tmp_path / "made").exists()
    assert next(shown["title"] for shown in calls(client).values()) == "my pen: greet"


async def test_a_tool_that_only_reads_can_be_allowed_where_nothing_may_change(tmp_path: Path) -> None:
    steps = [
        call("mcp__my_pen__greet", name="Ada"),
        call("mcp__my_pen__write", path=str(tmp_path / "made")),
        "Done.",
    ]
    async with desk(tmp_path, *steps, mode="architect", options=servers()) as (session, client, model):
        await session.prompt("Go")
    assert [outcome for _, outcome, _ in results(model)] == ["success", "denied"]
    assert len(asked(client)) == 1
    assert not (tmp_path / "made").exists()


async def test_a_picture_reaches_a_model_that_sees(tmp_path: Path) -> None:
    model = ScriptedModel(call("mcp__my_pen__draw"), "Nice.", takes=["image"])
    async with desk(tmp_path, model=model, options=servers()) as (session, _, _model):
        await session.prompt("Go")
    told = next(message for message in model.requests[-1].history if isinstance(message, Results))
    assert [part.media_type for part in told.results[0].parts if isinstance(part, Media)] == ["image/png"]


async def test_a_server_that_cannot_be_used_is_told_of_and_done_without(tmp_path: Path) -> None:
    steps = [call("mcp__my_pen__greet", name="Ada"), "Done."]
    async with desk(tmp_path, *steps, options=servers(BROKEN)) as (session, client, model):
        assert (await session.prompt("Go")).stop_reason == "end_turn"
        await session.prompt("/mcp")
    assert results(model)[0][1] == "success"
    notices = [update for update in updates(client) if isinstance(update, s.Notice)]
    assert len(notices) == 1 and "'broken' cannot be used" in (notices[0].description or "")
    assert "An MCP server cannot be used" not in said(updates(client))  # once is enough
    assert "- my pen: `write`, `greet`" in said(updates(client))
    assert "- broken: cannot be used" in said(updates(client))


async def test_a_server_that_cannot_be_used_is_told_to_a_client_without_notices(tmp_path: Path) -> None:
    async with desk(tmp_path, "Done.", client=BareClient(), options=servers(BROKEN)) as (session, client, _):
        assert (await session.prompt("Go")).stop_reason == "end_turn"
    assert "An MCP server cannot be used: " in said(updates(client))
    assert said(updates(client)).count("'broken' cannot be used") == 1


async def test_an_answer_for_the_session_covers_one_tool_of_one_server(tmp_path: Path) -> None:
    greet = call("mcp__my_pen__greet", name="Ada")
    steps = [greet, call("mcp__my_pen__greet", name="Bo"), call("mcp__my_pen__fail"), "Done."]
    client = DiskClient(permissions=lambda request: "allow_session")
    async with desk(tmp_path, *steps, client=client, options=servers()) as (session, _, _model):
        await session.prompt("Go")
    names = [[option.name for option in request.options][1] for request in asked(client)]
    assert names == ["Allow greet of my pen for this session", "Allow fail of my pen for this session"]


def rogue() -> dict[str, Any]:
    command = s.McpServerStdio(
        name="r", command=sys.executable, args=[str(PEN.with_name("rogue_server.py"))], env=[]
    )
    return {"mcp_servers": [command]}


async def test_tools_that_a_server_gains_in_the_middle_of_a_turn_are_offered_at_once(tmp_path: Path) -> None:
    steps = [call("mcp__r__learn"), call("mcp__r__learned"), "Done."]
    async with desk(tmp_path, *steps, mode="code", options=rogue()) as (session, _, model):
        await session.prompt("Go")
    offered = [{tool.name for tool in request.tools} for request in model.requests]
    assert ["mcp__r__learned" in names for names in offered] == [False, True, True]
    assert [outcome for _, outcome, _ in results(model)] == ["success", "success"]


async def test_a_server_that_dies_in_a_call_serves_the_next_one(tmp_path: Path) -> None:
    steps = [call("mcp__r__die"), call("mcp__r__greet"), call("mcp__r__structured"), "Done."]
    async with desk(tmp_path, *steps, mode="code", options=rogue()) as (session, _, model):
        await session.prompt("Go")
    told = results(model)
    assert [outcome for _, outcome, _ in told] == ["failed", "success", "success"]
    assert json.loads(told[2][2]) == {"answer": 42}


async def test_a_picture_too_large_or_broken_is_not_kept(tmp_path: Path) -> None:
    model = ScriptedModel(call("mcp__r__picture"), call("mcp__r__broken_picture"), "Nice.", takes=["image"])
    async with desk(tmp_path, model=model, mode="code", options=rogue()) as (session, _, _model):
        await session.prompt("Go")
    assert [words for _, _, words in results(model)] == [
        "(something of type image/png with more than 5 MiB, too large to be shown)",
        "(something of type image/png that is broken: it is not base64)",
    ]
    kept = [
        part for m in model.requests[-1].history if isinstance(m, Results) for r in m.results for part in r.parts
    ]
    assert not [part for part in kept if isinstance(part, Media)]


async def test_what_a_server_says_of_a_failure_reaches_the_model_cut(tmp_path: Path) -> None:
    steps = [call("mcp__r__long_error"), call("mcp__r__long_refusal"), call("mcp__r__surrogate"), "Done."]
    async with desk(tmp_path, *steps, mode="code", options=rogue()) as (session, _, model):
        await session.prompt("Go")
    assert [outcome for _, outcome, _ in results(model)] == ["failed"] * 3
    assert all(len(words) < 2100 for _, _, words in results(model))


async def test_a_tool_whose_name_looks_like_one_that_a_rule_forbids_is_forbidden(tmp_path: Path) -> None:
    (tmp_path / ".dragoman").mkdir()
    rules = tmp_path / ".dragoman" / "permissions.toml"
    rules.write_text('[[deny]]\noperation = "mcp_tool"\nserver = "x"\ntool = "delete"\n')
    server = s.McpServerStdio(
        name="x", command=sys.executable, args=[str(PEN.with_name("partial_server.py"))], env=[]
    )
    options = {"mcp_servers": [server]}
    async with desk(tmp_path, call("mcp__x___elete"), "Done.", mode="code", options=options) as (
        session,
        client,
        model,
    ):
        await session.prompt("Go")
    assert [outcome for _, outcome, _ in results(model)] == ["denied"]
    assert "forbids this" in results(model)[0][2] and asked(client) == []


# What a server asks the user


class Waiting(DiskClient):
    """A client whose user takes for ever over a form."""

    def __init__(self) -> None:
        super().__init__()
        self.shown, self.withdrawn = asyncio.Event(), asyncio.Event()

    async def fill_form(self, form: s.FormElicitation) -> None:
        self.shown.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.withdrawn.set()


@pytest.mark.parametrize(
    ("filled_in", "told"),
    [({"colour": "blue"}, {"action": "accept", "content": {"colour": "blue"}}), (None, {"action": "decline"})],
)
async def test_a_servers_question_reaches_the_user_and_says_who_asks(
    filled_in: dict[str, Any] | None, told: dict[str, Any], tmp_path: Path
) -> None:
    client = DiskClient(form=filled_in)
    async with desk(tmp_path, call("mcp__my_pen__ask"), "Done.", client=client, options=servers()) as (
        session,
        _,
        model,
    ):
        await session.prompt("Go")
    (form,) = [request for request in client.requests if isinstance(request, s.FormElicitation)]
    assert (form.message, form.session_id) == ("my pen: Which colour?", session.id)
    assert json.loads(results(model)[0][2]) == told


async def test_a_page_a_server_wants_visited_is_shown_and_done_with(tmp_path: Path) -> None:
    client = DiskClient(visits=True)
    async with desk(tmp_path, call("mcp__my_pen__visit"), "Done.", client=client, options=servers()) as (
        session,
        _,
        model,
    ):
        await session.prompt("Go")
    (page,) = [request for request in client.requests if isinstance(request, s.UrlElicitation)]
    assert (page.message, page.url) == ("my pen: Log in.", "https://example.com/login")
    assert [note.elicitation_id for note in client.notifications] == [page.elicitation_id]
    assert json.loads(results(model)[0][2]) == {"action": "accept"}


async def test_where_nobody_can_be_asked_the_server_is_told_so(tmp_path: Path) -> None:
    async with desk(tmp_path, call("mcp__my_pen__ask"), "Done.", client=BareClient(), options=servers()) as (
        session,
        _,
        model,
    ):
        await session.prompt("Go")
    assert json.loads(results(model)[0][2]) == {"action": "error"}


async def test_a_question_goes_with_the_turn_it_was_asked_in(tmp_path: Path) -> None:
    client = Waiting()
    async with desk(tmp_path, call("mcp__my_pen__ask"), client=client, options=servers()) as (session, _, _model):
        async with asyncio.timeout(20):
            prompt = session.prompt("Go")
            await client.shown.wait()
            session.cancel()
            assert (await prompt).stop_reason == "cancelled"
            await client.withdrawn.wait()


# Servers of the client's own


class Providing(DiskClient):
    """A client that has an MCP server of its own, and is spoken to through ACP."""

    def __init__(self, dispatcher: Any) -> None:
        super().__init__(form={"colour": "blue"})
        self._dispatcher = dispatcher
        self.reached: list[tuple[str, str]] = []

    async def message_mcp(self, params: Any) -> Any:
        from mcp import MCPError

        self.reached.append((params.server_id, params.method))
        try:
            result = await self._dispatcher.send_raw_request(params.method, params.params, {})
        except MCPError as exc:
            return s.MessageMcpResponse(error=s.McpError(code=exc.code, message=exc.message))
        return s.MessageMcpResponse(result=result)


@contextlib.asynccontextmanager
async def scribe() -> AsyncIterator[Any]:
    """What reaches a real server of the library's."""
    import anyio
    from mcp.server.runner import modern_on_request
    from mcp.shared.direct_dispatcher import create_direct_dispatcher_pair

    async def ignore(*_: Any) -> None:
        pass

    theirs = runpy.run_path(str(PEN.with_name("scribe.py")))["server"]._lowlevel_server
    near, far = create_direct_dispatcher_pair()
    async with theirs.lifespan(theirs) as state, anyio.create_task_group() as group:
        await group.start(far.run, modern_on_request(theirs, state), ignore)
        await group.start(near.run, ignore, ignore)
        yield near
        near.close()
        far.close()


async def test_a_server_of_the_clients_own_is_spoken_to_through_the_protocol(tmp_path: Path) -> None:
    steps = [
        call("mcp__notes__greet", name="Ada"),
        call("mcp__notes__write", path=str(tmp_path / "made")),
        call("mcp__notes__fail"),
        call("mcp__notes__paint"),
        "Done.",
    ]
    options = {"mcp_servers": [s.McpServerAcp(name="notes", server_id="server-1")]}
    async with asyncio.timeout(30), scribe() as dispatcher:
        client = Providing(dispatcher)
        async with desk(tmp_path, *steps, client=client, options=options) as (session, _, model):
            assert client.agent.offers.mcp_capabilities.acp
            await session.prompt("Go")
    assert [outcome for _, outcome, _ in results(model)] == ["success", "success", "failed", "success"]
    words = [words for _, _, words in results(model)]
    assert (words[0], words[1], words[3]) == ("Hello, Ada!", "written", "all blue")
    assert (tmp_path / "made").exists() and len(asked(client)) == 4
    assert {server for server, _ in client.reached} == {"server-1"}
    assert [method for _, method in client.reached][:2] == ["server/discover", "tools/list"]


async def test_a_client_that_has_no_such_server_is_done_without_it(tmp_path: Path) -> None:
    options = {"mcp_servers": [s.McpServerAcp(name="notes", server_id="server-1")]}
    async with asyncio.timeout(30), desk(tmp_path, "Done.", options=options) as (session, client, _):
        assert (await session.prompt("Go")).stop_reason == "end_turn"
    assert [u.title for u in updates(client) if isinstance(u, s.Notice)] == ["An MCP server cannot be used"]
