"""Who may do what at a session, and when: each role, each method, before, during and after a turn."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from patience import PATIENCE

from dragoman import extension
from dragoman.gateway.log.session_facts import SessionFacts
from dragoman.roles import AgentRole
from dragoman.testing import Testy

from .house import Bare, House, hosting, until

pytestmark = pytest.mark.usefixtures("nothing_left")

# `revoked` was an editor, has the session open, and then lost the seat; `nobody` never had one.
SEATS = {"viewer": "viewer", "editor": "editor", "admin": "admin", "revoked": "editor"}
ROLES = ("nobody", "revoked", "viewer", "editor", "admin", "owner")
REFUSED = "unknown unknown"
# What each of `ROLES` is answered: a result, that there is no such session, which role it takes, or a code.
MATRIX = {
    "session/load": f"{REFUSED} ok ok ok ok",
    "session/resume": f"{REFUSED} ok ok ok ok",
    "session/attach": f"{REFUSED} ok ok ok ok",
    "session/status": f"{REFUSED} ok ok ok ok",
    "session/set_mode": f"{REFUSED} editor ok ok ok",
    "session/set_config_option": f"{REFUSED} editor ok ok ok",
    "session/set_title": f"{REFUSED} editor ok ok ok",
    "_testy/about": f"{REFUSED} editor ok ok ok",  # any request of the agent's own
    # Of a prompt that is not there; an editor cancels no prompts of others.
    "_dragoman/queue/cancel": f"{REFUSED} editor -32600 -32602 -32602",
    "_dragoman/mcp/message": f"{REFUSED} editor -32601 -32601 -32601",  # the agent has no servers
    "_dragoman/session/share": f"{REFUSED} admin admin ok ok",
    "session/fork": f"{REFUSED} admin admin owner ok",
    "session/prompt": f"{REFUSED} editor ok ok ok",  # the last, for it is answered after the turn before it
}
# These end the session, or the client's part in it; that of somebody without a part is gone already.
ENDING = {
    "session/detach": f"{REFUSED} ok ok ok ok",
    "session/close": f"{REFUSED} ok ok ok ok",
    "session/archive": f"{REFUSED} admin admin ok ok",
    "session/unarchive": f"{REFUSED} admin admin ok ok",
    "session/delete": "ok ok admin admin ok ok",
}
ENDS = {"session/close", "session/archive", "session/delete"}  # for everybody, where an admin does it
ABOUT_NO_SESSION = {
    *("initialize", "authenticate", "logout", "auth/status", "session/new", "session/list", "mcp/message"),
    *("providers/list", "providers/set", "providers/disable", "nes/start", "nes/suggest", "nes/close"),
}
PARAMS: dict[str, dict[str, Any]] = {
    "session/load": {"cwd": "/", "mcpServers": []},
    "session/resume": {"cwd": "/", "mcpServers": []},
    "session/fork": {"cwd": "/", "mcpServers": []},
    "session/prompt": {"prompt": [{"type": "text", "text": "hello"}]},
    "session/set_mode": {"modeId": "plan"},
    "session/set_config_option": {"configId": "verbose", "type": "boolean", "value": True},
    "session/set_title": {"title": "Another"},
    "_dragoman/queue/cancel": {"prompt": "nobody/nothing"},
    "_dragoman/session/share": {"principal": "somebody", "role": "viewer"},
}


class Held(Testy):
    """Answers the prompt `hold` once it may."""

    may_go_on: asyncio.Event

    async def answer(self, turn: Any) -> Any:
        if turn.text == "hold":
            await turn.say("holding")
            await type(self).may_go_on.wait()
            return None
        return await super().answer(turn)

    @extension("_testy/about")
    async def about(self, params: Any) -> Any:
        return {}


def outcome(answer: dict[str, Any]) -> str:
    if "result" in answer:
        return "ok"
    error = answer["error"]
    if isinstance(error.get("data"), dict) and error["data"].get("kind") == "role":
        return str(error["data"]["needed"])
    return "unknown" if error["code"] == -32002 else str(error["code"])


class Company:
    """One client for each role, at a session in some moment."""

    def __init__(self, house: House, people: dict[str, Bare], moment: str, directory: Path) -> None:
        self.house, self.people, self.moment, self.directory = house, people, moment, directory
        self.turn: asyncio.Task[Any] | None = None
        self.id = ""

    async def open(self) -> None:
        """A new session in that moment, with everybody at it who may be, and one who may no longer."""
        ask, owner = self.ask, "owner"
        opened = await self.people[owner].ask("session/new", {"cwd": str(self.directory), "mcpServers": []})
        self.id = opened["result"]["sessionId"]
        for who, role in SEATS.items():
            assert outcome(await ask(owner, "_dragoman/session/share", principal=who, role=role)) == "ok"
            assert outcome(await ask(who, "session/load")) == "ok"
        assert outcome(await ask(owner, "_dragoman/session/share", principal="revoked", role=None)) == "ok"
        if self.moment != "before a turn":
            Held.may_go_on.clear()
            text = [{"type": "text", "text": "hold"}]
            self.turn = asyncio.create_task(ask(owner, "session/prompt", prompt=text))
            turns = self.house.gateway.live[self.id].turns
            await until(lambda: turns.running is not None and turns.running.is_answered)
        if self.moment == "after a turn":
            assert await self.end_turn() == "end_turn"

    async def end_turn(self, *, is_cancelled: bool = False) -> str:
        """How the turn ends that is held, if one is."""
        if not is_cancelled:
            Held.may_go_on.set()
        turn, self.turn = self.turn, None
        async with asyncio.timeout(PATIENCE):
            return str((await turn)["result"]["stopReason"]) if turn else ""

    async def ask(self, who: str, method: str, **params: Any) -> dict[str, Any]:
        return await self.people[who].ask(method, {"sessionId": self.id, **PARAMS.get(method, {}), **params})

    def state(self) -> bytes:
        """All that a refused request could have changed."""
        session = self.house.gateway.live[self.id]
        return msgspec.json.encode((session.facts, len(session.turns.waiting), session.turns.running is None))


@pytest.fixture(params=["before a turn", "during a turn", "after a turn"])
async def company(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    Held.may_go_on = asyncio.Event()
    async with hosting(tmp_path, Held, people=ROLES) as house, AsyncExitStack() as stack:
        people = {who: await stack.enter_async_context(house.bare(who)) for who in ROLES}
        yield Company(house, people, request.param, tmp_path)
        Held.may_go_on.set()


async def test_each_role_may_do_at_any_moment_what_the_table_says_and_nothing_else(company: Company) -> None:
    await company.open()
    found: dict[str, str] = {}
    prompts: dict[str, asyncio.Task[Any]] = {}
    for method, expected in MATRIX.items():
        outcomes = []
        for who, wanted in zip(ROLES, expected.split(), strict=True):
            before = company.state()
            asking = asyncio.create_task(company.ask(who, method))
            if method == "session/prompt" and wanted == "ok":
                prompts[who] = asking
                outcomes.append("ok")
                continue
            outcomes.append(outcome(await asking))
            if outcomes[-1] != "ok":
                assert company.state() == before, (method, who)
        found[method] = " ".join(outcomes)
    assert found == MATRIX
    assert await company.end_turn() == ("end_turn" if company.moment == "during a turn" else "")
    async with asyncio.timeout(PATIENCE):
        assert {who: outcome(await prompt) for who, prompt in prompts.items()} == dict.fromkeys(prompts, "ok")


async def test_each_role_ends_at_any_moment_what_the_table_says_and_nothing_else(company: Company) -> None:
    live, engine = company.house.gateway.live, company.house.gateway.engine
    for method, expected in ENDING.items():
        by_role = dict(zip(ROLES, expected.split(), strict=True))
        able = ("admin", "owner") if method in ENDS else ("owner",)  # only one of them can end a session
        for last in able:
            await company.open()
            for who in [who for who in ROLES if who not in able or who == last]:
                assert company.id in live, (method, who)
                assert outcome(await company.ask(who, method)) == by_role[who], (method, who)
            assert (company.id in live) is (method not in ENDS), (method, last)
            fact = await engine.fact("session", company.id)
            assert (fact is None) is (method == "session/delete"), (method, last)
            if fact:
                is_archived = msgspec.json.decode(fact.value, type=SessionFacts).archived
                assert is_archived is (method == "session/archive"), (method, last)
            await company.end_turn()


async def test_a_turn_is_cancelled_by_whoever_may_prompt_and_by_nobody_else(tmp_path: Path) -> None:
    Held.may_go_on = asyncio.Event()
    async with hosting(tmp_path, Held, people=ROLES) as house, AsyncExitStack() as stack:
        people = {who: await stack.enter_async_context(house.bare(who)) for who in ROLES}
        company = Company(house, people, "during a turn", tmp_path)
        for who in ROLES:
            await company.open()
            turn = house.gateway.live[company.id].turns.running
            cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": company.id}}
            people[who].send(cancel)
            await people[who].ask("session/list", {})  # what was sent before has been heard
            is_cancelled = who in ("editor", "admin", "owner")
            assert turn and turn.cancelled.is_set() is is_cancelled, who
            stop_reason = await company.end_turn(is_cancelled=is_cancelled)
            assert stop_reason == ("cancelled" if is_cancelled else "end_turn"), who


async def test_no_method_about_a_session_is_missing_in_the_table(tmp_path: Path) -> None:
    async with hosting(tmp_path, Held, people=ROLES) as house, house.bare("owner") as owner:
        opened = await owner.ask("session/new", {"cwd": str(tmp_path), "mcpServers": []})
        (viewer,) = house.gateway.live[opened["result"]["sessionId"]].viewers
        requests, _ = viewer.client.answers(AgentRole)  # type: ignore[attr-defined]
    assert set(requests) - ABOUT_NO_SESSION == {*MATRIX, *ENDING} - {"_testy/about"}
