"""`dragoman serve --listen unix:PATH`: who may open the socket, and who they are then."""

import asyncio
import grp
import json
import os
import pwd
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from patience import PATIENCE
from users import USER, user_command

from dragoman import connect
from dragoman.errors import AgentStartError
from dragoman.gateway.access.tokens import add_token

from .house import Watcher

pytestmark = [
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="this system does not tell who is at a socket"),
]
DRAGOMAN = [sys.executable, "-m", "dragoman"]
OURSELVES = pwd.getpwuid(os.geteuid()).pw_name
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")


class Post:
    """A gateway at a Unix socket."""

    def __init__(self, top: Path) -> None:
        self.top, self.state, self.socket, self.log = top, top / "state", top / "acp.sock", top / "log"
        self.url = f"unix://{self.socket}"

    @asynccontextmanager
    async def serving(self, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
        with self.log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(*DRAGOMAN, "serve", "--agent", "testy", "--state", str(self.state)),
                *("--listen", f"unix:{self.socket}", "--workspace", str(self.top), *options),
                stdout=subprocess.PIPE,
                stderr=log,
            )
        assert process.stdout
        try:
            async with asyncio.timeout(PATIENCE):
                url = (await process.stdout.readline()).decode().strip()
            assert url == self.url, self.log.read_text()
            yield process
        finally:
            if process.returncode is None:
                process.terminate()
            await process.communicate()

    async def owners(self) -> dict[str, str]:
        """The principal of each session, as the gateway's own command tells."""
        words = (*DRAGOMAN, "gateway", "sessions", "--state", str(self.state))
        process = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE)
        output, _ = await process.communicate()
        rows = map(json.loads, output.splitlines())
        return {row["session"]: row["principal"] for row in rows}


@pytest.fixture
def post() -> Iterator[Post]:
    with tempfile.TemporaryDirectory(prefix="dragoman-") as top:  # a socket's path has to be short
        Path(top).chmod(0o755)
        yield Post(Path(top))


async def test_a_client_at_a_unix_socket_is_its_user_and_needs_no_token(post: Post) -> None:
    async with post.serving():
        assert stat.S_IMODE(post.socket.stat().st_mode) == 0o600
        client = Watcher()
        async with connect(post.url, client), asyncio.timeout(PATIENCE):
            session = await client.new_session(post.top)
            assert (await session.prompt("hello")).stop_reason == "end_turn"
            assert await post.owners() == {session.id: OURSELVES}
        named = Watcher()
        async with connect(f"{post.url}:/acp/testy", named), asyncio.timeout(PATIENCE):
            assert [one.session_id for one in await named.list_sessions()] == [session.id]
    assert not post.socket.exists()


async def test_a_token_says_more_than_the_user_of_a_socket(post: Post) -> None:
    post.state.mkdir()
    token = add_token(post.state / "tokens.json", "ann", "ann")
    async with post.serving():
        client = Watcher()
        async with connect(post.url, client, headers={"Authorization": f"Bearer {token}"}):
            session = await client.new_session(post.top)
            assert await post.owners() == {session.id: "ann"}
        with pytest.raises(AgentStartError, match="401"):
            async with connect(post.url, Watcher(), headers={"Authorization": "Bearer dgm_wrong"}):
                pass


async def test_what_a_proxy_passes_on_to_a_unix_socket_takes_a_token(post: Post) -> None:
    async with post.serving():
        for header in ("X-Forwarded-For", "Forwarded", "Via"):
            with pytest.raises(AgentStartError, match="401"):
                async with connect(post.url, Watcher(), headers={header: "for=192.0.2.1"}):
                    pass


@pytest.mark.parametrize("listed", [True, False])
async def test_users_that_are_listed_are_the_principals_that_the_list_says(post: Post, listed: bool) -> None:
    who = OURSELVES if listed else "65533"
    async with post.serving("--socket-user", f"{who}=somebody"):
        client = Watcher()
        if listed:
            async with connect(post.url, client):
                session = await client.new_session(post.top)
                assert await post.owners() == {session.id: "somebody"}
        else:
            with pytest.raises(AgentStartError, match="401"):
                async with connect(post.url, client):
                    pass
            assert f"the uid {os.geteuid()} is not in --socket-user" in post.log.read_text()


VISITING = """
import asyncio, sys
from dragoman import Client, connect
async def visit():
    client = Client()
    async with connect(sys.argv[1], client):
        print((await client.new_session(sys.argv[2])).id)
asyncio.run(visit())
"""


@root_only
async def test_another_user_opens_the_socket_with_its_group_alone_and_is_somebody_else(post: Post) -> None:
    argv, environ = user_command(VISITING, post.url, str(post.top))

    async def visit() -> tuple[str, str]:
        process = await asyncio.create_subprocess_exec(
            *argv,
            env=environ,
            user=USER,
            group=USER,
            extra_groups=[],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        async with asyncio.timeout(PATIENCE):
            said, complained = await process.communicate()
        return said.decode().strip(), complained.decode()

    async with post.serving():
        said, complained = await visit()
        assert not said and "permission denied" in complained
    async with post.serving("--socket-group", str(USER)):
        status = post.socket.stat()
        assert (stat.S_IMODE(status.st_mode), status.st_gid) == (0o660, USER)
        said, complained = await visit()
        try:
            name = pwd.getpwuid(USER).pw_name
        except KeyError:
            assert "401" in complained and f"the uid {USER} has no name" in post.log.read_text()
        else:
            assert (await post.owners())[said] == name
    async with post.serving("--socket-group", str(USER), "--socket-user", f"{USER}=guest"):
        said, _ = await visit()
        assert (await post.owners())[said] == "guest"


async def test_a_socket_that_a_dead_gateway_left_is_replaced_and_one_in_use_is_not(post: Post) -> None:
    async with post.serving() as process:
        process.kill()
        await process.wait()
    assert post.socket.exists()
    other = Post(post.top)
    other.state = post.top / "other"
    async with post.serving():
        process = await asyncio.create_subprocess_exec(
            *(
                *DRAGOMAN,
                "serve",
                "--agent",
                "testy",
                "--state",
                str(other.state),
                "--listen",
                f"unix:{post.socket}",
            ),
            stderr=subprocess.PIPE,
        )
        _, complained = await process.communicate()
        assert process.returncode and b"Address already in use" in complained, complained
        async with connect(post.url, Watcher()):
            pass
    post.socket.write_text("mine")
    process = await asyncio.create_subprocess_exec(
        *(*DRAGOMAN, "serve", "--agent", "testy", "--state", str(other.state), "--listen", f"unix:{post.socket}"),
        stderr=subprocess.PIPE,
    )
    _, complained = await process.communicate()
    assert process.returncode and b"no socket" in complained
    assert post.socket.read_text() == "mine"


async def test_a_gateway_at_a_unix_socket_is_taken_over_and_the_socket_stays(post: Post) -> None:
    async with post.serving() as first:
        async with post.serving("--take-over"):
            async with asyncio.timeout(PATIENCE):
                assert await first.wait() == 0
            async with connect(post.url, Watcher()):
                pass
        assert not post.socket.exists()


async def test_a_gateway_takes_over_a_socket_of_the_kind_that_it_is_told_to_listen_at(post: Post) -> None:
    async with post.serving():
        process = await asyncio.create_subprocess_exec(
            *(*DRAGOMAN, "serve", "--agent", "testy", "--state", str(post.state), "--take-over"),
            stderr=subprocess.PIPE,
        )
        _, complained = await process.communicate()
        assert process.returncode and b"unix:" in complained, complained
        async with connect(post.url, Watcher()):
            pass


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--listen", "unix:"), "--listen takes HOST:PORT or unix:PATH"),
        (("--listen", "unix:a", "--tls", "cert", "key"), "--tls and --proxy-protocol are for addresses"),
        (("--listen", "unix:a", "--socket-group", "nobody-has-it"), "there is no group 'nobody-has-it'"),
        (("--socket-group", grp.getgrgid(os.getegid()).gr_name), "--socket-group and --socket-user need"),
        (("--socket-user", "nobody-has-it=a"), "there is no user 'nobody-has-it'"),
        (("--socket-user", "0"), "'0' is not USER=PRINCIPAL"),
    ],
)
def test_what_makes_no_sense_at_a_unix_socket_is_refused(
    tmp_path: Path, options: tuple[str, ...], complaint: str
) -> None:
    done = subprocess.run(
        [*DRAGOMAN, "serve", "--agent", "testy", "--state", str(tmp_path / "state"), *options],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=PATIENCE,
    )
    assert done.returncode and complaint in done.stderr, done.stderr


@pytest.mark.parametrize("url", ["unix://host/acp.sock", "unix:///", "unix:///a.sock:/a b"])
async def test_a_url_of_a_unix_socket_is_read_strictly(url: str) -> None:
    with pytest.raises(AgentStartError, match=r"unix://|percent-encoded"):
        async with connect(url, Watcher()):
            pass
