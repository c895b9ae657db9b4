"""What an agent knows of its clients follows those who are at the session."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman import schema as s
from dragoman.store import Store, durable
from dragoman.testing import Testy

from .house import Bare, House, hosting
from .test_transparency import RICH, Curious, heard, opened, prompted, words

pytestmark = pytest.mark.usefixtures("nothing_left")

ALL = "fs terminal elicitation plan notices"


class Switching(Curious):
    """Has a switch where its client can show one."""

    async def opened(self, session: Any) -> None:
        offers = self.client.offers.session
        switches = offers is not None and offers.config_options is not None
        session.config_options = [
            option for option in Testy.config_options if switches or isinstance(option, s.SessionConfigSelect)
        ]


class Loading(Curious):
    """Brings sessions back, and closes none."""

    ever: set[str]  # the sessions of all its processes

    def capabilities(self) -> s.AgentCapabilities:
        offers = super().capabilities()
        sessions = msgspec.structs.replace(offers.session_capabilities, close=None)
        return msgspec.structs.replace(offers, session_capabilities=sessions)

    async def opened(self, session: Any) -> None:
        type(self).ever.add(session.id)

    async def load_session(self, params: s.LoadSessionRequest) -> s.LoadSessionResponse:
        assert params.session_id in type(self).ever
        await self.open_session(params.session_id, params)
        return s.LoadSessionResponse()


def kept(agent: type[Any], directory: Path) -> Any:
    return durable(agent, Store(str(directory / "sessions.db")))


async def joined(bare: Bare, session: str, directory: Path) -> None:
    answer = await bare.ask("session/resume", {"sessionId": session, "cwd": str(directory), "mcpServers": []})
    assert "result" in answer


async def told(bare: Bare, session: str) -> str:
    """What the agent says it was told of its client."""
    heard(bare)
    assert (await prompted(bare, session, "told"))["result"] == {"stopReason": "end_turn"}
    return words(heard(bare))


def names(house: House) -> list[str]:
    """What the agents' processes call the sessions they have."""
    return [id for _, _, upstream in house.gateway.processes.running.entries() for id in upstream.parties]


async def test_an_agent_knows_a_richer_client_once_the_poorer_one_has_gone(tmp_path: Path) -> None:
    agent, hosted = kept(Curious, tmp_path), {"workspace": "client"}
    async with hosting(tmp_path, agent, hosted=hosted) as house, house.bare(capabilities=RICH) as rich:
        async with house.bare() as poor:
            session = await opened(poor, tmp_path)
            assert await told(poor, session) == "nothing"
            (name,) = names(house)
            await joined(rich, session, tmp_path)
            assert await told(rich, session) == "nothing"  # for the other is still there
            await poor.ask("session/detach", {"sessionId": session})
        assert await told(rich, session) == ALL
        assert names(house) == [name]  # one process has it, and it is the same session
        async with house.bare() as poor:
            await joined(poor, session, tmp_path)
            assert await told(poor, session) == ALL
            await rich.ask("session/detach", {"sessionId": session})
            assert await told(poor, session) == "nothing"
            assert names(house) == [name]


async def test_a_client_that_has_come_is_told_of_options_that_only_it_can_show(tmp_path: Path) -> None:
    agent = kept(Switching, tmp_path)
    async with hosting(tmp_path, agent) as house, house.bare(capabilities=RICH) as rich:
        async with house.bare() as poor:
            session = await opened(poor, tmp_path)
            await told(poor, session)
        await joined(rich, session, tmp_path)
        await prompted(rich, session, "told")
        (update,) = [update for update in heard(rich) if update["sessionUpdate"] == "config_option_update"]
        assert {option["type"] for option in update["configOptions"]} == {"select", "boolean"}
        loaded = await rich.ask("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
        assert loaded["result"]["configOptions"] == update["configOptions"]


async def test_a_session_that_no_other_process_takes_stays_where_it_is(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.bare(capabilities=RICH) as rich:
        async with house.bare() as poor:
            session = await opened(poor, tmp_path)
            await poor.ask("session/set_mode", {"sessionId": session, "modeId": "plan"})
            await prompted(poor, session, "echo before")
            before = names(house)
        await joined(rich, session, tmp_path)
        for _ in range(2):
            heard(rich)
            await prompted(rich, session, "echo after")
            assert words(heard(rich)) == "after"
            assert names(house) == before


async def test_a_process_that_closes_no_sessions_ends_with_its_last(tmp_path: Path) -> None:
    agent = type("Loading", (Loading,), {"ever": set()})
    hosted = {"workspace": "client"}
    async with (
        hosting(tmp_path, agent, hosted=hosted) as house,
        house.bare(capabilities=RICH) as rich,
        house.bare() as poor,
    ):
        sessions = [await opened(poor, tmp_path) for _ in range(2)]
        for session in sessions:
            assert await told(poor, session) == "nothing"
        await poor.ask("session/detach", {"sessionId": sessions[0]})
        await joined(rich, sessions[0], tmp_path)
        assert await told(rich, sessions[0]) == "nothing"  # it could not be closed where it is
        await poor.ask("session/close", {"sessionId": sessions[1]})
        assert await told(rich, sessions[0]) == ALL
        assert len(house.gateway.processes.running) == 1


async def test_a_turn_goes_on_in_the_process_it_began_in(tmp_path: Path) -> None:
    agent = kept(Curious, tmp_path)
    async with (
        hosting(tmp_path, agent) as house,
        house.bare(capabilities=RICH) as rich,
        house.bare(knows_us=True) as poor,
    ):
        session = await opened(poor, tmp_path)
        await joined(rich, session, tmp_path)
        ask = {"sessionId": session, "prompt": [{"type": "text", "text": "ask why"}]}
        poor.send({"jsonrpc": "2.0", "id": "turn", "method": "session/prompt", "params": ask})
        await poor.hear("_client/question")
        ((_, _, before),) = [found for found in house.gateway.processes.running.entries() if found[2].parties]
        await poor.ask("session/detach", {"sessionId": session})
        await rich.ask("_curious/none", {"sessionId": session})
        assert list(before.parties) == names(house)
