"""What an agent and a client say to each other through a gateway is what they say without it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE

from dragoman import Agent, connect, extension
from dragoman import schema as s
from dragoman.errors import AgentStartError, InvalidRequest
from dragoman.gateway.attachment import attached
from dragoman.testing import RecordingClient, Testy

from .house import Bare, House, Watcher, hosting, stepping

pytestmark = pytest.mark.usefixtures("nothing_left")

RICH = {
    "session": {"notices": {}, "compaction": {}, "configOptions": {"boolean": {}}},
    "elicitation": {"form": {}, "url": {}},
    "plan": {},
    "subagents": {},
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
}


class Curious(Agent):
    """Says what it was told of its client, sends every kind of update unasked, and asks on command."""

    async def answer(self, turn: Any) -> None:
        word, _, rest = turn.prompt[-1].text.partition(" ")
        if word == "told":
            await turn.say(s.TextContent(text=_told(self.client.offers)))
        elif word == "show":
            await turn.update(s.Notice(severity="info", title="a notice"))
            await turn.update(s.CompactionUpdate(compaction_id="c", status="in_progress"))
            steps = [s.PlanEntry(content="a step", priority="low", status="pending")]
            await turn.update(s.PlanUpdate(plan=s.PlanItems(plan_id="p", entries=steps)))
            await turn.update(s.ConfigOptionUpdate(config_options=Testy.config_options))
            await turn.say("shown")
        elif word == "elicit":
            request = s.FormElicitation(
                message="Name?", session_id=turn.session.id, requested_schema=s.ElicitationSchema()
            )
            answered = await turn.client.request("elicitation/create", request)
            await turn.say(answered["action"])
        elif word == "visit":
            await turn.say("before")
            await turn.elicit_url("Log in", "https://example.com", id="page")
            turn.client.complete_elicitation(s.CompleteElicitationNotification(elicitation_id="page"))
            await turn.say("after")
        elif word == "ask":
            await turn.say("asking")
            answered = await turn.client.request("_client/question", {"sessionId": turn.session.id, "what": rest})
            turn.client.notify("_client/told", {"sessionId": turn.session.id, "what": answered})
            await turn.say("told")


def _told(offers: s.ClientCapabilities) -> str:
    named = {"fs": offers.fs.read_text_file, "terminal": offers.terminal, "elicitation": offers.elicitation}
    named |= {"plan": offers.plan, "notices": offers.session and offers.session.notices}
    return " ".join(name for name, value in named.items() if value) or "nothing"


async def opened(bare: Bare, directory: Path) -> str:
    answer = await bare.ask("session/new", {"cwd": str(directory), "mcpServers": []})
    return str(answer["result"]["sessionId"])


async def prompted(bare: Bare, session: str, text: str) -> dict[str, Any]:
    return await bare.ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]})


def heard(bare: Bare) -> list[dict[str, Any]]:
    """The updates a client was told, which are then no longer here."""
    told = [frame["params"]["update"] for frame in bare.frames if frame.get("method") == "session/update"]
    bare.frames = [frame for frame in bare.frames if frame.get("method") != "session/update"]
    return told


def words(updates: list[dict[str, Any]]) -> str:
    chunks = [update for update in updates if update["sessionUpdate"] == "agent_message_chunk"]
    return "".join(update["content"]["text"] for update in chunks)


def kinds(updates: list[dict[str, Any]]) -> list[str]:
    return [update["sessionUpdate"] for update in updates]


# Capabilities


@pytest.mark.parametrize(
    ("workspace", "capabilities", "expected"),
    [
        ("client", {}, "nothing"),
        ("client", RICH, "fs terminal elicitation plan notices"),
        ("client", {"fs": {"readTextFile": True}, "plan": {}}, "fs plan"),
        ("host", {}, "fs terminal"),
        ("host", {"elicitation": {"form": {}}}, "fs terminal elicitation"),
    ],
)
async def test_an_agent_is_told_what_its_client_and_the_host_can_do(
    tmp_path: Path, workspace: str, capabilities: Any, expected: str
) -> None:
    hosted = {"workspace": workspace}
    async with (
        hosting(tmp_path, Curious, hosted=hosted) as house,
        house.bare(capabilities=capabilities) as bare,
    ):
        session = await opened(bare, tmp_path)
        await prompted(bare, session, "told")
        assert words(heard(bare)) == expected


async def test_clients_that_differ_have_each_an_agent_that_knows_them(tmp_path: Path) -> None:
    async with (
        hosting(tmp_path, Curious) as house,
        house.bare() as poor,
        house.bare(capabilities=RICH) as rich,
        house.bare(capabilities=RICH) as alike,
    ):
        for bare, expected in (
            (poor, ""),
            (rich, " elicitation plan notices"),
            (alike, " elicitation plan notices"),
        ):
            await prompted(bare, await opened(bare, tmp_path), "told")
            assert words(heard(bare)) == f"fs terminal{expected}"
        assert len(house.gateway.processes.running) == 2


async def test_a_poorer_client_is_told_less_of_the_same_session(tmp_path: Path) -> None:
    async with hosting(tmp_path, Curious) as house, house.bare(capabilities=RICH) as rich, house.bare() as poor:
        session = await opened(rich, tmp_path)
        await poor.ask("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
        await prompted(rich, session, "show")
        told = ["notice", "compaction_update", "plan_update", "config_option_update", "agent_message_chunk"]
        assert kinds(heard(rich)) == told
        while kinds(poor_told := heard(poor))[-1:] != ["agent_message_chunk"]:
            poor.frames += [{"method": "session/update", "params": {"update": update}} for update in poor_told]
            await poor.changed()
        by_kind = {update["sessionUpdate"]: update for update in poor_told}
        assert set(by_kind) == {"user_message_chunk", "plan", "config_option_update", "agent_message_chunk"}
        assert by_kind["plan"]["entries"][0]["content"] == "a step"
        assert {option["type"] for option in by_kind["config_option_update"]["configOptions"]} == {"select"}
        loaded = await poor.ask("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
        assert {option["type"] for option in loaded["result"]["configOptions"]} == {"select"}


async def test_a_form_is_put_to_the_client_that_can_show_it(tmp_path: Path) -> None:
    async with hosting(tmp_path, Curious) as house, house.bare(capabilities=RICH) as rich, house.bare() as poor:
        session = await opened(rich, tmp_path)
        await poor.ask("session/resume", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
        asking = asyncio.ensure_future(prompted(poor, session, "elicit"))
        form = await rich.hear("elicitation/create")
        rich.send({"jsonrpc": "2.0", "id": form["id"], "result": {"action": "decline"}})
        assert (await asking)["result"] == {"stopReason": "end_turn"}
        assert words(heard(rich)) == "decline"
        assert not [frame for frame in poor.frames if frame.get("method") == "elicitation/create"]


async def test_a_form_that_nobody_present_can_show_is_refused_at_once(tmp_path: Path) -> None:
    async with hosting(tmp_path, Curious) as house, house.bare() as poor:
        session = await opened(poor, tmp_path)
        answer = await prompted(poor, session, "elicit")
        assert "Method not found" in answer["error"]["message"]


async def test_an_agent_that_is_started_again_is_told_of_who_is_there_then(tmp_path: Path) -> None:
    async with hosting(tmp_path, Curious, hosted={"workspace": "client"}) as house:
        async with house.bare() as poor:
            session = await opened(poor, tmp_path)
            await prompted(poor, session, "told")
            assert words(heard(poor)) == "nothing"
        async with house.bare(capabilities=RICH) as rich:
            await rich.ask("session/resume", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
            await prompted(rich, session, "told")
            assert words(heard(rich)) == "nothing"  # the agent goes on, and cannot be told anything else
            for _, _, upstream in house.gateway.processes.running.entries():
                await upstream.close()
            await prompted(rich, session, "told")
            assert words(heard(rich)) == "fs terminal elicitation plan notices"


async def test_nobody_is_asked_for_files_that_no_client_was_said_to_have(tmp_path: Path) -> None:
    async with (
        hosting(tmp_path, Testy, hosted={"workspace": "client"}) as house,
        house.bare() as poor,
        asyncio.timeout(PATIENCE),
    ):
        session = await opened(poor, tmp_path)
        assert "error" in await prompted(poor, session, "read /file")
        there = house.gateway.live[session].facts.upstream
        for method, about in (("fs/read_text_file", {"path": "/file"}), ("terminal/create", {"command": "true"})):
            asked = json.dumps({"sessionId": there, **about})  # by an agent that asks all the same
            error = (await prompted(poor, session, f"request {method} {asked}"))["error"]
            assert "-32601" in error["message"], error
        assert not [frame for frame in poor.frames if frame.get("method", "").startswith(("fs/", "terminal/"))]


# What was dropped on the way


async def test_a_page_that_was_dealt_with_is_told_in_its_place(tmp_path: Path) -> None:
    async with hosting(tmp_path, Curious) as house, house.bare(capabilities=RICH) as bare:
        session = await opened(bare, tmp_path)
        running = asyncio.ensure_future(prompted(bare, session, "visit"))
        page = await bare.hear("elicitation/create")
        bare.send({"jsonrpc": "2.0", "id": page["id"], "result": {"action": "accept"}})
        await running
        told = [frame["method"] for frame in bare.frames]
        assert told == ["session/update", "elicitation/complete", "session/update"]
        assert bare.frames[1]["params"] == {"elicitationId": "page"}


async def test_an_agent_s_own_requests_and_notifications_reach_the_client_that_prompted(tmp_path: Path) -> None:
    async with hosting(tmp_path, Curious) as house, house.bare() as bare, house.bare() as other:
        session = await opened(bare, tmp_path)
        await other.ask("session/resume", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
        running = asyncio.ensure_future(prompted(other, session, "ask why"))
        question = await other.hear("_client/question")
        assert question["params"] == {"sessionId": session, "what": "why"}
        other.send({"jsonrpc": "2.0", "id": question["id"], "result": "because"})
        await running
        assert (await other.hear("_client/told"))["params"] == {"sessionId": session, "what": "because"}
        assert (await bare.hear("_client/told"))["params"] == {"sessionId": session, "what": "because"}


class Fleeting(Agent):
    """Opens what it likes and keeps nothing: its extension says which session it is about."""

    @extension("_fleeting/which")
    async def which(self, params: Any) -> Any:
        return {"known": params["sessionId"] in self.sessions, "more": params["more"]}


async def test_an_extension_about_a_session_reaches_the_agent_under_its_own_name_for_it(tmp_path: Path) -> None:
    async with hosting(tmp_path, Fleeting) as house, house.bare() as bare, house.bare("bob") as bob:
        session = await opened(bare, tmp_path)
        which = {"sessionId": session, "more": [1]}
        assert (await bare.ask("_fleeting/which", which))["result"] == {"known": True, "more": [1]}
        assert (await bob.ask("_fleeting/which", which))["error"]["code"] == -32002
        assert (await bare.ask("_dragoman/nothing", {}))["error"]["code"] == -32601


ABOUT = {  # what a client asks about a session, and the agent's answer to it
    "session/set_title": ({"title": " A  title "}, {"title": "A title"}),
    "session/status": ({}, {"status": "open"}),
    "session/archive": ({}, {}),
    "session/unarchive": ({}, {}),
    "session/delete": ({}, {}),
}


async def test_what_is_asked_about_a_session_reaches_the_agent_that_has_it(tmp_path: Path) -> None:
    asked: list[tuple[str, bool]] = []

    def noting(method: str) -> Any:
        name = {"session/set_title": "set_title", "session/status": "session_status"}.get(
            method, f"{method.removeprefix('session/')}_session"
        )

        async def note(self: Any, params: Any) -> Any:
            asked.append((method, params.session_id in self._kept))
            return await getattr(Testy, name)(self, params)

        return name, note

    agent = type("Noting", (Testy,), dict(map(noting, ABOUT)))
    async with hosting(tmp_path, agent) as house, house.bare() as bare:
        session = await opened(bare, tmp_path)
        for method, (params, result) in ABOUT.items():
            assert (await bare.ask(method, {"sessionId": session, **params}))["result"] == result
    assert asked == [(method, True) for method in ABOUT]


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "closed"])
async def test_a_session_that_is_deleted_is_deleted_at_its_agent_too(tmp_path: Path, is_open: bool) -> None:
    deleted: list[str] = []

    class Forgetful(Testy):
        refuses = True

        async def delete_session(self, params: s.DeleteSessionRequest) -> s.DeleteSessionResponse:
            if type(self).refuses:
                raise InvalidRequest("not now")
            deleted.append(params.session_id)
            return await super().delete_session(params)

    async with hosting(tmp_path, Forgetful) as house, house.bare() as bare, house.bare("bob") as bob:
        session = {"sessionId": await opened(bare, tmp_path)}
        there = house.gateway.live[session["sessionId"]].facts.upstream
        if not is_open:
            await bare.ask("session/close", session)
        assert (await bob.ask("session/delete", session))["result"] == {}  # which is none of his
        assert (await bare.ask("session/delete", session))["error"]["message"].endswith("not now")
        listed = (await bare.ask("session/list", {}))["result"]["sessions"]
        assert [each["sessionId"] for each in listed] == [session["sessionId"]]  # to be tried again
        Forgetful.refuses = False
        for _ in range(2):
            assert (await bare.ask("session/delete", session))["result"] == {}
        assert (await bare.ask("session/list", {}))["result"]["sessions"] == []
    assert deleted == [there]


class Doorkeeper(Agent):
    """Sends whoever logs in to a page, and tells when they have been there."""

    async def authenticate(self, params: s.AuthenticateRequest) -> s.AuthenticateResponse:
        request = s.UrlElicitation(
            message="Log in",
            url="https://example.com",
            elicitation_id="door",
            request_id=self.client.wire.request_id,
        )
        await self.client.create_elicitation(request)
        self.client.complete_elicitation(s.CompleteElicitationNotification(elicitation_id="door"))
        self.client.auth_status_changed(s.AuthStatusUpdateNotification(state="authenticated"))
        return s.AuthenticateResponse()


async def test_a_question_about_a_request_finds_the_client_that_made_it(tmp_path: Path) -> None:
    async with (
        hosting(tmp_path, Doorkeeper) as house,
        house.bare(capabilities=RICH) as bare,
        house.bare(capabilities=RICH) as other,
    ):
        running = asyncio.ensure_future(bare.ask("authenticate", {"methodId": "page"}, id="login"))
        page = await bare.hear("elicitation/create")
        assert page["params"]["requestId"] == "login"
        bare.send({"jsonrpc": "2.0", "id": page["id"], "result": {"action": "accept"}})
        assert (await running)["result"] == {}
        assert [frame["method"] for frame in bare.frames] == ["elicitation/complete", "auth/status_update"]
        await other.hear("auth/status_update")
        assert other.frames == []


async def test_a_fork_through_the_shim_is_followed_and_taken_up_again(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, asyncio.timeout(PATIENCE):
        way = attached(house.url(), headers=house.headers("ann"))
        async with connect(way, RecordingClient()) as client:
            session = await client.new_session(tmp_path)
            await session.prompt("echo before")
            fork = await session.fork(tmp_path)
            for wire in list(house.web._wires.values()):
                wire.end("the gateway is restarted", 1012)
            told = [event async for event in fork.prompt("echo after")]
            said = [event.content.text for event in told if isinstance(event, s.AgentMessageChunk)]  # type: ignore[union-attr]
            assert said == ["after"]


async def test_only_its_owner_forks_a_session(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.bare() as ann, house.bare("bob") as bob:
        session = await opened(ann, tmp_path)
        await ann.ask("_dragoman/session/share", {"sessionId": session, "principal": "bob", "role": "admin"})
        fork = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
        assert (await bob.ask("session/fork", fork))["error"]["data"] == {"kind": "role", "needed": "owner"}
        assert (await ann.ask("session/fork", fork))["result"]["sessionId"] != session


async def test_an_unknown_session_is_deleted_as_an_agent_deletes_it(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.bare() as bare:
        assert (await bare.ask("session/delete", {"sessionId": "nobody's"}))["result"] == {}


@pytest.mark.parametrize("version", ["one", None, -1, 1.5, 70_000])
async def test_a_version_that_is_none_is_a_wrong_parameter(tmp_path: Path, version: Any) -> None:
    from dragoman.transports.remote.dialling import dial

    async with hosting(tmp_path) as house:
        bare = Bare(await dial(house.url(), headers=house.headers("ann")))
        try:
            assert (await bare.ask("initialize", {"protocolVersion": version}))["error"]["code"] == -32602
        finally:
            await bare.wire.close()


class Chatty(Agent):
    """Goes on talking after it was told to stop, also when its turn is over, until the session is closed here."""

    async def answer(self, turn: Any) -> None:
        await turn.say("begun")
        try:
            await asyncio.Event().wait()
        finally:
            await turn.say("stopped")
            self.talking = asyncio.create_task(self._go_on(turn.session))

    async def _go_on(self, session: Any) -> None:
        update = s.AgentMessageChunk(content=s.TextContent(text="more"))
        while session.id in self.sessions:
            self.client.update(s.SessionNotification(session_id=session.id, update=update))
            await asyncio.sleep(0)


@pytest.mark.parametrize("method", ["session/close", "session/delete"])
async def test_a_session_closed_in_a_turn_answers_cancelled_and_says_no_more(tmp_path: Path, method: str) -> None:
    async with hosting(tmp_path, Chatty) as house, house.bare() as bare:
        session = await opened(bare, tmp_path)
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "x"}]}
        bare.send({"jsonrpc": "2.0", "id": "turn", "method": "session/prompt", "params": prompt})
        while "begun" not in words(heard(bare)):
            await bare.changed()
        assert (await bare.ask(method, {"sessionId": session}, id="end"))["result"] == {}
        answers = [frame["result"] for frame in bare.frames if frame.get("id") == "turn"]
        assert answers == [{"stopReason": "cancelled"}]
        await bare.ask("session/list", {})
        after = bare.frames[[frame.get("id") for frame in bare.frames].index("turn") + 1 :]
        assert not [frame for frame in after if frame.get("method") == "session/update"]


# Questions of the host


async def test_the_host_asks_for_each_command_by_a_name_of_its_own_and_shows_it(tmp_path: Path) -> None:
    async with hosting(tmp_path, hosted={"preset": "ask"}) as house, house.visit() as ann:
        session = await ann.new_session(tmp_path)
        asked = []
        for command in ("touch one", "touch two"):
            running = asyncio.ensure_future(_prompted(session, f"run {command}"))
            async with asyncio.timeout(PATIENCE):
                request, answer = await ann.asked.get()
                answer.set_result("reject_once")
                await asyncio.wait([running])
                running.exception()
            call = request.tool_call
            assert command in call.title and call.kind == "execute" and call.raw_input["command"] == command
            assert len({option.name for option in request.options}) == len(request.options)
            assert not [option for option in request.options if "everything" in option.name]
            asked.append(call.tool_call_id)
        assert len(set(asked)) == 2


async def _prompted(session: Any, text: str) -> None:
    await session.prompt(text)


# Reloading, and reaching it


@pytest.mark.parametrize(("capabilities", "kind"), [({}, "agent_thought_chunk"), (RICH, "notice")])
async def test_a_prompt_that_waits_for_one_of_an_earlier_connection_says_so(
    tmp_path: Path, capabilities: Any, kind: str
) -> None:
    agent = stepping()
    async with hosting(tmp_path, agent) as house, house.bare(capabilities=capabilities) as before:
        session = await opened(before, tmp_path)
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "one"}]}
        before.send({"jsonrpc": "2.0", "id": 90, "method": "session/prompt", "params": prompt})
        before.send({"jsonrpc": "2.0", "id": 91, "method": "session/prompt", "params": prompt})
        async with house.bare(capabilities=capabilities) as after:
            await after.ask("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
            heard(after)
            after.send({"jsonrpc": "2.0", "id": 92, "method": "session/prompt", "params": prompt})
            told = {"sessionUpdate": "user_message_chunk"}  # what the others have said may come first
            while told["sessionUpdate"] == "user_message_chunk":
                told = (await after.hear("session/update"))["params"]["update"]
            assert told["sessionUpdate"] == kind and "waits" in str(told)
            for _ in range(3):
                agent.allowed.release()
            async with asyncio.timeout(PATIENCE):
                while not [frame for frame in after.frames if frame.get("id") == 92]:
                    await after.changed()
        assert "waits" not in str(before.frames)  # who sends two prompts knows of both


WIRES = ("websocket", "http")


@pytest.mark.parametrize("wire", WIRES)
async def test_who_comes_under_another_name_is_told_which_option_is_missing(tmp_path: Path, wire: str) -> None:
    async with hosting(tmp_path) as house:
        house.web.guard.hosts.clear()
        host = house.url().partition("://")[2].partition("/")[0]
        with pytest.raises(AgentStartError, match=f"421.*--host {host}"):
            async with connect(house.url(wire=wire), Watcher(), headers=house.headers("ann")):
                raise AssertionError


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("refusal", ["credential", "path", "draining", "connections"])
async def test_a_refusal_is_one_kind_of_error_on_every_wire(tmp_path: Path, wire: str, refusal: str) -> None:
    async with hosting(tmp_path) as house:
        headers = {"Authorization": "Bearer wrong"} if refusal == "credential" else house.headers("ann")
        house.gateway.is_draining = refusal == "draining"
        path = "/acp/nobody" if refusal == "path" else "/acp"
        if refusal == "connections":
            house.gateway.limits = type(house.gateway.limits)(connections_each=0)
        with pytest.raises(AgentStartError):
            async with connect(await _wire(house, path, wire, headers), Watcher()):
                raise AssertionError


async def _wire(house: House, path: str, wire: str, headers: Any) -> Any:
    from dragoman.transports.remote.client.http import dial_http
    from dragoman.transports.remote.client.websocket import dial_websocket

    dial = dial_websocket if wire == "websocket" else dial_http
    return await dial(house.url(path, wire=wire), headers=headers, patience=0.0)
