"""authenticate, logout, auth/status, and what happens without them."""

import pytest

from dragoman import AuthRequired, Client, InvalidParams, MethodNotFound, NotOffered
from dragoman import schema as s

from .cast import Guarded, Modest
from .reading import open_session


async def test_a_client_with_a_terminal_is_told_every_way_to_log_in(connect):
    async with connect() as client:
        key, login = client.auth_methods
        assert key == s.AuthMethodAgent(id="key", name="With a key", description="Testy asks nobody")
        assert login == s.AuthMethodTerminal(
            id="login", name="In a terminal", args=["--login"], env={"TESTY_LOGIN": "1"}
        )


async def test_a_client_without_a_terminal_is_told_no_way_that_needs_one(connect):
    async with connect(client=Client()) as client:
        assert [method.id for method in client.auth_methods] == ["key"]


async def test_a_session_needs_a_login_where_the_agent_says_so(connect):
    async with connect(Guarded) as client:
        with pytest.raises(AuthRequired):
            await client.new_session()
        await client.authenticate("key")
        assert await open_session(client)


async def test_a_logout_is_the_end_of_a_login(connect):
    async with connect(Guarded) as client:
        await client.authenticate("key")
        await client.logout()
        with pytest.raises(AuthRequired):
            await client.new_session()


async def test_an_unknown_way_to_log_in_is_refused(connect):
    async with connect(Guarded) as client:
        for method in ("password", "login", ""):
            with pytest.raises(InvalidParams):
                await client.authenticate(method)


async def test_the_status_can_be_asked_for_and_its_changes_are_told(connect):
    async with connect() as client:
        assert (await client.agent.auth_status(s.AuthStatusRequest())).state == "unauthenticated"
        await client.authenticate("key")
        status = await client.agent.auth_status(s.AuthStatusRequest())
        assert status.state == "authenticated"
        assert status.accounts == [s.AuthAccount(label="tester", active=True)]
        await client.logout()
        told = [note.state for note in client.notifications]
        assert told == ["authenticated", "unauthenticated"]


async def test_an_agent_without_a_login_has_none(connect):
    async with connect(Modest) as client:
        assert client.auth_methods == []
        with pytest.raises(MethodNotFound):
            await client.authenticate("key")
        with pytest.raises(NotOffered):
            await client.logout()
        with pytest.raises(NotOffered):
            await client.agent.auth_status(s.AuthStatusRequest())
