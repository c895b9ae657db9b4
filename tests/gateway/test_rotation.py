"""Credentials that expire while somebody is connected."""

import asyncio
import subprocess
from pathlib import Path

import pytest
from patience import PATIENCE

from dragoman import connect
from dragoman.gateway.access.tokens import add_token, revoke_token

from .house import Watcher
from .test_commands import DRAGOMAN, served

pytestmark = pytest.mark.usefixtures("nothing_left")


async def test_a_client_goes_on_with_the_token_that_replaced_a_revoked_one(tmp_path: Path) -> None:
    state, file = tmp_path / "state", tmp_path / "token"
    async with served(state) as (url, _):
        tokens = state / "tokens.json"
        file.write_text(add_token(tokens, "first", "ann"))
        watcher = Watcher()
        async with (
            connect([*DRAGOMAN, "connect", url, "--token-file", str(file)], watcher),
            asyncio.timeout(PATIENCE),
        ):
            session = await watcher.new_session(tmp_path)
            await session.prompt("one")
            revoke_token(tokens, "first")
            asked = asyncio.create_task(session.prompt("two"))
            file.write_text(add_token(tokens, "second", "ann"))
            assert (await asked).stop_reason == "end_turn"
            assert (await session.prompt("three")).stop_reason == "end_turn"


async def test_a_client_whose_token_is_gone_ends_and_says_so(tmp_path: Path) -> None:
    state, file = tmp_path / "state", tmp_path / "token"
    async with served(state) as (url, _):
        tokens = state / "tokens.json"
        file.write_text(add_token(tokens, "first", "ann"))
        client = await asyncio.create_subprocess_exec(
            *(*DRAGOMAN, "connect", url, "--token-file", str(file), "--patience", "1"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert client.stdin and client.stdout and client.stderr
        client.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n')
        async with asyncio.timeout(PATIENCE):
            assert b'"result"' in await client.stdout.readline()
            revoke_token(tokens, "first")
            assert await client.wait() == 1
            told = (await client.stderr.read()).decode()
        assert "cannot be reached any more" in told.splitlines()[-1]
