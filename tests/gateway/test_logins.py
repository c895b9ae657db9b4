"""Logging in to an agent behind a gateway, in the ways agents know."""

import logging
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent
from dragoman import schema as s
from dragoman.errors import AuthRequired

from .house import hosting

pytestmark = pytest.mark.usefixtures("nothing_left")

SECRET = "sk-very-secret"


class Guarded(Agent):
    """Opens no session before somebody has logged in."""

    auth_methods = tuple(s.AuthMethodAgent(id=name, name=name) for name in ("api_key", "oauth2", "custom"))
    holds = 3600.0
    is_in = False

    async def authenticate(self, params: s.AuthenticateRequest) -> s.AuthenticateResponse:
        given = (params.meta or {}).get("credentials", {})
        if SECRET not in given.values():
            raise AuthRequired("these credentials are not good")
        self.is_in = True
        until = datetime.fromtimestamp(time.time() + type(self).holds, UTC).isoformat()
        return s.AuthenticateResponse(meta={"expiresAt": until})

    async def opened(self, session: Any) -> None:
        if not self.is_in:
            raise AuthRequired()

    async def answer(self, turn: Any) -> None:
        await turn.say("hello")


def credentials(method: str, secret: str) -> dict[str, Any]:
    given = {"api_key": {"apiKey": secret}, "oauth2": {"accessToken": secret}, "custom": {"word": secret}}[method]
    return {"methodId": method, "_meta": {"credentials": given}}


@pytest.mark.parametrize("method", ["api_key", "oauth2", "custom"])
async def test_credentials_reach_the_agent_and_nobody_else(
    tmp_path: Path, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with hosting(tmp_path, Guarded) as house, house.visit() as ann:
        with pytest.raises(AuthRequired):
            await ann.new_session(tmp_path)
        await ann.agent.request("authenticate", credentials(method, SECRET))
        session = await ann.new_session(tmp_path)
        assert (await session.prompt("hello")).stop_reason == "end_turn"
    assert SECRET not in caplog.text
    assert all(SECRET.encode() not in file.read_bytes() for file in tmp_path.iterdir() if file.is_file())


async def test_a_login_that_has_expired_has_to_be_made_again(tmp_path: Path) -> None:
    brief = type("Brief", (Guarded,), {"holds": 3600.0})
    async with hosting(tmp_path, brief) as house, house.visit() as ann:
        await ann.agent.request("authenticate", credentials("oauth2", SECRET))
        session = await ann.new_session(tmp_path)
        brief.holds = -1.0
        await ann.agent.request("authenticate", credentials("oauth2", SECRET))
        with pytest.raises(AuthRequired, match="expired"):
            await session.prompt("hello")
        with pytest.raises(AuthRequired, match="expired"):
            await ann.new_session(tmp_path)
        brief.holds = 3600.0
        await ann.agent.request("authenticate", credentials("oauth2", SECRET))
        assert (await session.prompt("hello")).stop_reason == "end_turn"


async def test_who_fails_too_often_is_sent_away(tmp_path: Path) -> None:
    async with hosting(tmp_path, Guarded) as house, house.visit() as ann:
        for _ in range(3):
            with pytest.raises(AuthRequired):
                await ann.agent.request("authenticate", credentials("api_key", "wrong"))
        await ann.until(lambda: ann.closed)


async def test_a_login_without_credentials_may_fail_as_often_as_it_likes(tmp_path: Path) -> None:
    async with hosting(tmp_path, Guarded) as house, house.visit() as ann:
        for _ in range(5):
            with pytest.raises(AuthRequired):
                await ann.agent.request("authenticate", {"methodId": "oauth2"})
        await ann.agent.request("authenticate", credentials("oauth2", SECRET))
        assert not ann.closed
