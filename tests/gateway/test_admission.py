"""Who is let in, under which name, from which page; and what those who are let in may not do."""

import asyncio
import base64
import contextlib
import json
import os
import random
import re
import socket
import ssl
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import Raw
from patience import PATIENCE
from remote.by_hand import ByHand

from dragoman import connect
from dragoman.errors import AgentStartError, Error, InvalidParams, MethodNotFound, Overloaded, RpcError
from dragoman.framing import MAX_FRAME
from dragoman.gateway.access.admission import Admission
from dragoman.gateway.access.checks import Checks, command_hash
from dragoman.gateway.access.limits import Limits
from dragoman.gateway.access.signed import LEEWAY, SignedTokens
from dragoman.gateway.access.tokens import TokenFile, TokenFileError, add_token, revoke_token
from dragoman.gateway.agents.upstream import Hosted
from dragoman.gateway.serving import ServeOptions, check_exposure, serving
from dragoman.roles import AgentRole, ClientRole, methods
from dragoman.testing import Testy
from dragoman.transports.remote.addresses import read_url
from dragoman.transports.remote.client.link import ServerLink
from dragoman.transports.remote.server.accepted import WebRequest
from dragoman.transports.remote.server.answers import RequestRefused

from .certificates import Authority
from .house import Watcher, hosting

pytestmark = pytest.mark.usefixtures("nothing_left")


async def ask(port: int, *lines: str, path: str = "/metrics", method: str = "GET") -> int:
    """The status of a request with exactly these headers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = "".join(f"{line}\r\n" for line in (f"{method} {path} HTTP/1.1", *lines, "Connection: close"))
    writer.write(head.encode() + b"\r\n" + (b"{}" if method == "POST" else b""))
    answer = b""
    try:
        async with asyncio.timeout(PATIENCE):
            answer = await reader.read()
    except ConnectionError:
        pass
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    status = int(answer.split(b" ", 2)[1]) if answer else 0
    if status in (429, 503) and path != "/readyz":
        assert b"\r\nretry-after: " in answer.lower()  # whoever is refused for now is told for how long
    return status


def disguises(dice: random.Random, port: int, count: int = 400) -> list[str]:
    """Names that look as if they were one of ours."""
    names = ["localhost", "127.0.0.1", "[::1]"]
    hostile = ["evil.com", "localhost.evil.com", "127.0.0.1.evil.com", "0.0.0.0", "127.1", "2130706433", "null", ""]
    signs = ["", ".", "@", "#", "%00", "\t", " x", ",", "/", "\\", "..", "%2e", "\u0131", "\xad"]
    made = [f"{host}:{port}" for host in hostile] + names  # without the port they are others
    while len(made) < count:
        name, sign = dice.choice(names), dice.choice(signs)
        made.append(
            dice.choice(
                [
                    f"{name}{sign or '.'}:{port}",
                    f"{sign or 'x'}{name}:{port}",
                    f"user@{name}:{port}",
                    f"{name}:{port}{sign or '0'}",
                    f"{name}:{dice.randrange(1, 65535) if dice.random() < 0.9 else 0}",
                    f"{dice.choice(hostile)}#{name}:{port}",
                    f"{name}:{port},{dice.choice(hostile)}",
                    f"{name}:0{port}",
                    f"{dice.choice(hostile)}:{port}",
                ]
            )
        )
    return [name for name in made if name.strip().lower() not in {f"{n}:{port}" for n in names}]


async def disguised(port: int, seed: int, count: int) -> list[tuple[str, str]]:
    """Come under false names and from strange pages; gives those that were let in."""
    accepted = []
    for name in disguises(random.Random(seed), port, count):
        if await ask(port, f"Host: {name}") not in (400, 421, 0):
            accepted.append(("host", name))
        if await ask(port, f"Host: localhost:{port}", f"Origin: http://{name}") not in (400, 403, 0):
            accepted.append(("origin", name))
    return accepted


async def test_no_name_but_ours_and_no_page_at_all_is_answered(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house:
        port = house.server.port
        house.web.guard.origins.add("https://ui.example")
        own = f"Host: localhost:{port}"
        assert await ask(port, own) == 401  # let in, without a token
        assert await ask(port, own, "Origin: https://ui.example") == 401
        accepted = await disguised(port, seed=1, count=400)
        for page in (
            "null",
            "https://ui.example.evil.com",
            "https://ui.example:443",
            "HTTPS://ui.example",
            "file://",
        ):
            for path in ("/acp", "/metrics", "/readyz", "/nowhere"):
                assert await ask(port, own, f"Origin: {page}", path=path) == 403
        assert await ask(port, own, own) in (400, 421)
        assert accepted == []


async def test_nobody_comes_in_without_a_credential(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic YTpi"}, {"Cookie": "a=b"}):
            for wire in ("websocket", "http"):
                with pytest.raises(AgentStartError):
                    async with connect(house.url(wire=wire), headers=headers):
                        pass
        assert house.gateway.metrics.connections.lines("x") == ["x 0"]
        assert len(house.gateway.processes.running) == 0


async def test_guessing_is_slowed_down(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house:
        own = f"Host: localhost:{house.server.port}"
        async with house.visit() as there:
            codes = [
                await ask(house.server.port, own, f"Authorization: Bearer {n}", path="/acp") for n in range(25)
            ]
            assert codes[:20] == [401] * 20
            assert set(codes[20:]) == {429}
            await there.new_session(tmp_path)  # whoever is there goes on
        async with house.visit("bob", wire="http") as new:  # and whoever has a good token comes in
            await new.new_session(tmp_path)


async def test_a_cookie_is_a_credential_unless_another_site_has_the_browser_send_it(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house:
        port, own = house.server.port, f"Host: localhost:{house.server.port}"
        cookie = f"Cookie: theme=dark; dragoman_token={house.tokens['ann']}"
        accepted = "Accept: text/event-stream"
        assert await ask(port, own, cookie, accepted, path="/acp") == 400  # let in: the connection is not named
        assert await ask(port, own, cookie, accepted, "Sec-Fetch-Site: same-origin", path="/acp") == 400
        assert await ask(port, own, cookie, accepted, "Sec-Fetch-Site: cross-site", path="/acp") == 401
        assert await ask(port, own, "Cookie: dragoman_token=wrong", accepted, path="/acp") == 401


async def test_guessing_at_one_token_is_slowed_down_wherever_it_comes_from(tmp_path: Path) -> None:
    token = add_token(tmp_path / "tokens.json", "ann", "ann")
    other = add_token(tmp_path / "tokens.json", "bob", "bob")
    admission = Admission(TokenFile(tmp_path / "tokens.json"))

    def request(token: str, peer: str) -> WebRequest:
        return WebRequest("GET", "/acp", {"authorization": f"Bearer {token}"}, peer=peer)

    codes = []
    for number in range(25):
        with pytest.raises(RequestRefused) as caught:
            await admission(request(f"{token[:16]}{number}", f"192.0.2.{number}"))
        codes.append(caught.value.status)
    assert codes == [401] * 20 + [429] * 5
    assert (await admission(request(other, "192.0.2.1"))).name == "bob"


@pytest.mark.parametrize("wire", ["websocket", "http"])
async def test_a_client_that_sends_nothing_but_nonsense_is_sent_away(
    tmp_path: Path, wire: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with hosting(tmp_path) as house, house.bare(wire=wire) as bare, house.bare("bob", wire=wire) as other:
        bare.wire.send([b'{"jsonrpc":"2.0","id":true}'] * 999)
        assert "result" in await bare.ask("session/list", {})
        bare.wire.send([b'{"jsonrpc":"2.0","id":true}'] * 2)
        async with asyncio.timeout(PATIENCE):
            await bare.ended.wait()
            why = str(await bare.wire.why_ended())
        how = "the connection was closed with code 1008: " if wire == "websocket" else ""
        assert why == f"{how}too many wrong frames"
        assert "result" in await other.ask("session/list", {})
    assert [record.levelname for record in caplog.records if "sent away" in record.message] == ["WARNING"]


async def test_a_token_that_is_revoked_ends_live_connections_within_a_second(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house:
        async with house.visit("ann") as ann, house.visit("bob", wire="http") as bob:
            session = await bob.new_session(tmp_path)
            revoke_token(tmp_path / "tokens.json", "bob")
            async with asyncio.timeout(5):  # a second, on a machine that has nothing else to do
                await bob.until(lambda: bob.closed)
            await ann.new_session(tmp_path)
        with pytest.raises(AgentStartError):
            async with house.visit("bob"):
                pass
        assert session.id in house.gateway.live  # what is theirs is still there for them


async def test_a_socket_whose_token_is_revoked_is_closed_with_a_code_that_says_so(tmp_path: Path) -> None:
    from websockets.asyncio.client import connect as dial
    from websockets.exceptions import ConnectionClosed

    async with hosting(tmp_path) as house:
        headers = house.headers("bob")
        async with dial(house.url(), additional_headers=headers) as socket, asyncio.timeout(PATIENCE):
            await socket.send('{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}')
            await socket.recv()
            revoke_token(tmp_path / "tokens.json", "bob")
            with pytest.raises(ConnectionClosed) as caught:
                await socket.recv()
            assert caught.value.rcvd and caught.value.rcvd.code == 4401


async def test_a_browser_brings_its_token_as_a_subprotocol(tmp_path: Path) -> None:
    from websockets.asyncio.client import connect as dial

    async with hosting(tmp_path) as house:
        house.web.guard.origins.add("https://ui.example")
        names = ["acp", f"dragoman.bearer.{house.tokens['ann']}"]
        async with dial(house.url(), subprotocols=names, origin="https://ui.example") as socket:  # type: ignore[arg-type]
            assert socket.subprotocol == "acp"
            await socket.send('{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}')
            assert json.loads(await socket.recv())["result"]["protocolVersion"] == 1


async def test_only_what_is_on_the_list_or_the_agent_s_own_can_be_called(tmp_path: Path) -> None:
    listed = {
        *("authenticate", "logout", "session/new", "session/load", "session/resume", "session/list"),
        *("session/close", "session/delete", "session/prompt", "session/set_mode", "session/set_config_option"),
        *("initialize", "_dragoman/session/share", "_dragoman/queue/cancel", "session/attach", "session/detach"),
        *("session/fork", "session/archive", "session/unarchive", "session/status", "session/set_title"),
        *("auth/status", "providers/list", "providers/set", "providers/disable", "_testy/ping"),
        "mcp/message",  # of a server of the client, which may ask an agent of the first generation
    }
    known = {method.name for role in (AgentRole, ClientRole) for method in methods(role).values()}
    made_up = {f"_{word}/{verb}" for word in ("dragoman", "testy", "admin", "host") for verb in "abcdefgh"}
    made_up |= {"_testy/ping", "_dragoman/fs/read_text_file", "admin/drain", "gateway/sessions", "rpc.discover"}
    async with hosting(tmp_path) as house, house.bare() as bare:
        for name in sorted((known | made_up) - listed):
            about_none, about_a_stranger = await bare.ask(name, {}), await bare.ask(name, {"sessionId": "x"})
            assert about_none["error"]["code"] == -32601, name
            is_the_agents = name.startswith("_") and not name.startswith("_dragoman/")
            assert about_a_stranger["error"]["code"] == (-32002 if is_the_agents else -32601), name


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two names that lead somewhere: one to the internet, one to this machine."""
    leads, real = {"mcp.example.com": "93.184.215.14", "rebound.example.com": "127.0.0.1"}, socket.getaddrinfo

    def resolve(host: Any, *arguments: Any, **options: Any) -> Any:
        return real(leads.get(host, host), *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


async def test_what_a_session_is_opened_with_is_checked(tmp_path: Path, names: None) -> None:
    work = tmp_path / "work" / "ann"
    (work / "project").mkdir(parents=True)
    (tmp_path / "work" / "bob").mkdir()
    (work / "out").symlink_to("/etc")
    known = command_hash("mcp-known", ["--stdio"])
    with_level = command_hash("mcp-known", ["--stdio"], [("LEVEL", "3"), ("HOME", "/srv")])
    checks = Checks(workspace=str(tmp_path / "work" / "{principal}"), commands=[known, with_level])

    def stdio(**more: Any) -> dict[str, Any]:
        return {"mcpServers": [{"name": "k", "command": "mcp-known", "args": ["--stdio"], "env": [], **more}]}

    def variables(**settings: str) -> list[dict[str, str]]:
        return [{"name": name, "value": value} for name, value in settings.items()]

    good: list[dict[str, Any]] = [
        {"cwd": str(work)},
        {"cwd": str(work / "project")},
        stdio(),
        stdio(env=None),
        stdio(type="stdio"),
        stdio(env=variables(HOME="/srv", LEVEL="3")),
        {"mcpServers": [{"name": "k", "type": "http", "url": "https://mcp.example.com/x", "headers": []}]},
    ]
    bad: list[dict[str, Any]] = [
        {"cwd": "/"},
        {"cwd": "/etc"},
        {"cwd": str(tmp_path / "work" / "bob")},
        {"cwd": str(work / ".." / "bob")},
        {"cwd": str(work) + "x"},
        {"cwd": str(work / "out")},
        {"cwd": "relative"},
        {"cwd": str(work) + "\0"},
        {"cwd": 7},
        {"additionalDirectories": ["/etc"]},
        {"additionalDirectories": [str(work / "out")]},
        {"mcpServers": [{"name": "k", "command": "mcp-known", "args": [], "env": []}]},
        {"mcpServers": [{"name": "k", "command": "sh", "args": ["-c", "touch x"], "env": []}]},
        stdio(env=variables(PYTHONPATH="/tmp/evil")),
        stdio(env=variables(LEVEL="3")),
        stdio(env=variables(LEVEL="4", HOME="/srv")),
        stdio(env=variables(LEVEL="3", HOME="/srv", X="1")),
        stdio(env=[*variables(LEVEL="3", HOME="/srv"), *variables(LEVEL="4")]),
        stdio(env=[{"name": "LEVEL", "value": "3", "more": 1}]),
        stdio(env={"PYTHONPATH": "/tmp/evil"}),
        stdio(url="http://127.0.0.1/"),
        stdio(type="http", url="http://127.0.0.1/"),
        stdio(type="sse"),
        stdio(cwd="/tmp/evil"),
        stdio(Command="sh"),
        {"mcpServers": [{"name": "k", "type": "acp", "id": "1"}]},
        {"mcpServers": [{"name": "k", "type": "acp", "serverId": ""}]},
        {"mcpServers": [{"name": "k", "type": "acp", "serverId": "1", "url": "http://127.0.0.1/"}]},
        stdio(type="acp", serverId="1"),
        stdio(serverId="1"),
        *(
            {"mcpServers": [{"name": "k", "type": "http", "url": url, "headers": []}]}
            for url in (
                "http://127.0.0.1/",
                "https://127.0.0.1\\@mcp.example.com/",
                "http://mcp.example.com/x",
                "https://localhost.localdomain/",
                "https://rebound.example.com/",
                "https://[64:ff9b::7f00:1]/",
                "https://user@mcp.example.com/",
                "http://localhost/",
                "http://169.254.169.254/latest",
                "http://[::1]/",
                "http://10.0.0.1/",
                "http://2130706433/",
                "http://0x7f.1/",
                "http://printer.local/",
                "ftp://example.com/",
                "file:///etc/passwd",
                "http://[fe80::1]/",
                "http://intranet/",
            )
        ),
        {
            "mcpServers": [
                {"name": str(n), "type": "http", "url": "https://a.example/", "headers": []} for n in range(40)
            ]
        },
    ]
    async with hosting(tmp_path / "state", people=("ann",), checks=checks) as house, house.bare() as bare:
        base = {"cwd": str(work), "mcpServers": []}
        for params in good:
            assert "result" in await bare.ask("session/new", {**base, **params}), params
        for params in bad:
            answer = await bare.ask("session/new", {**base, **params})
            assert answer["error"]["code"] in (-32602, -32001), params
        assert len(house.gateway.live) == len(good)


async def test_an_agent_is_given_the_servers_in_the_one_reading_that_was_checked() -> None:
    checks = Checks(commands=[command_hash("mcp-known")])
    twice = b'[{"name":"k","command":"sh","command":"mcp-known","args":[],"args":[],"env":[],"_meta":{"a":1}}]'
    found = {"cwd": Raw(b'"/"'), "mcpServers": Raw(twice)}
    checks.opening(found, Limits())
    assert bytes(found["mcpServers"]) == (
        b'[{"name":"k","command":"mcp-known","args":[],"env":[],"_meta":{"a":1}}]'
    )


async def test_a_refused_server_is_named_with_the_hash_that_would_allow_it() -> None:
    server = {"name": "k", "command": "a", "args": ["b"], "env": [{"name": "C", "value": "d"}]}
    found = {"cwd": Raw(b'"/"'), "mcpServers": Raw(json.dumps([server]).encode())}
    with pytest.raises(InvalidParams, match=command_hash("a", ["b"], [("C", "d")])) as refused:
        Checks().opening(found, Limits())
    (known_by,) = re.findall("[0-9a-f]{64}", str(refused.value))
    Checks(commands=[known_by]).opening(found, Limits())


async def test_each_limit_has_a_clear_error_of_its_own(tmp_path: Path) -> None:
    limits = Limits(sessions_each=2, connections_each=2, prompt_bytes=2000, session_bytes=60_000, turn_seconds=0.2)
    async with hosting(tmp_path, limits=limits) as house, house.visit() as ann:
        first, second = await ann.new_session(tmp_path), await ann.new_session(tmp_path)
        with pytest.raises(Overloaded) as caught:
            await ann.new_session(tmp_path)
        assert caught.value.data["limit"] == "sessions_each"
        await ann.close_session(second.id)
        await ann.new_session(tmp_path)  # there is room again
        with pytest.raises(Overloaded) as caught:
            await first.prompt("x" * 3000)
        assert caught.value.data["limit"] == "prompt_bytes"
        with pytest.raises(Overloaded) as caught:
            async with asyncio.timeout(PATIENCE):
                await first.prompt("wait")
        assert caught.value.data["limit"] == "turn_seconds"
        await first.prompt("flood 70 1000")
        with pytest.raises(Overloaded) as caught:
            await first.prompt("more")
        assert caught.value.data["limit"] == "session_bytes"
        async with house.visit():
            own = f"Host: localhost:{house.server.port}"
            token = f"Authorization: Bearer {house.tokens['ann']}"
            json_body = ("Content-Type: application/json", "Content-Length: 2")
            assert await ask(house.server.port, own, token, *json_body, path="/acp", method="POST") == 429
        house.gateway.is_draining = True
        assert await ask(house.server.port, own, path="/readyz") == 503
        assert await ask(house.server.port, own, token, *json_body, path="/acp", method="POST") == 503


async def test_what_is_counted_is_shown_to_admins_and_names_nobody(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit() as ann:
        session = await ann.new_session(tmp_path)
        await session.prompt("hello")
        own = f"Host: localhost:{house.server.port}"
        assert await ask(house.server.port, own, path="/metrics") == 401
        token = f"Authorization: Bearer {house.tokens['ann']}"
        assert await ask(house.server.port, own, token, path="/metrics") == 403
        boss = add_token(tmp_path / "tokens.json", "boss", "boss", ("use", "admin"))
        assert await ask(house.server.port, own, f"Authorization: Bearer {boss}", path="/metrics") == 200
        text = house.gateway.metrics.text()
        assert 'dragoman_turns_total{outcome="answered"} 1' in text
        assert "ann" not in text and session.id not in text and str(tmp_path) not in text


async def test_a_gateway_others_can_reach_needs_tls_and_tokens(tmp_path: Path) -> None:
    agents = {"testy": Hosted(target=Testy)}
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.com"):
        with pytest.raises(Error):
            check_exposure(ServeOptions(agents=agents, state=tmp_path, host=host))
        with pytest.raises(Error):
            check_exposure(ServeOptions(agents=agents, state=tmp_path, host=host, is_open=True, tls=("a", "b")))
        check_exposure(ServeOptions(agents=agents, state=tmp_path, host=host, tls=("a", "b")))
    for host in ("127.0.0.1", "::1", "localhost"):
        check_exposure(ServeOptions(agents=agents, state=tmp_path, host=host))


async def test_two_gateways_do_not_share_a_directory(tmp_path: Path) -> None:
    order = ServeOptions(agents={"testy": Hosted(target=Testy)}, state=tmp_path)
    async with serving(order, lambda: None):
        with pytest.raises(Error, match="another gateway uses"):
            async with serving(order, lambda: None):
                pass
        assert oct(os.stat(tmp_path / "admin.sock").st_mode)[-3:] == "600"


def published(directory: Path, *keys: dict[str, Any]) -> Path:
    """A file of an issuer's keys, put in the place of the one before."""
    (directory / "new").write_text(json.dumps({"keys": keys}))
    return (directory / "new").rename(directory / "jwks.json")


def public_part(key: Any, kid: str, **more: Any) -> dict[str, Any]:
    import jwt
    from cryptography.hazmat.primitives.asymmetric import rsa

    kinds = jwt.algorithms
    of = kinds.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else kinds.ECAlgorithm
    return json.loads(of.to_jwk(key.public_key())) | {"kid": kid, "use": "sig", **more}


def signed(directory: Path) -> tuple[Any, Any]:
    """A file of keys, and what makes tokens with one of them."""
    import jwt
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    published(directory, public_part(key, "k1"))

    def make(
        kid: str = "k1", with_key: Any = key, algorithm: str = "ES256", header: Any = None, **claims: Any
    ) -> str:
        told = {"iss": "https://id.example", "aud": "dragoman", "sub": "ann", "exp": time.time() + 600, **claims}
        told = {name: value for name, value in told.items() if value is not None}
        token = jwt.encode(told, with_key, algorithm=algorithm, headers={"kid": kid})
        return signed_again(token, with_key, header) if header else token

    return SignedTokens("https://id.example", "dragoman", str(directory / "jwks.json")), make


def signed_again(token: str, key: Any, header: Any) -> str:
    """A token with more in its header, under a signature that is right again."""
    import jwt

    def part(data: bytes) -> bytes:
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    told = {**jwt.get_unverified_header(token), **header}
    said = part(json.dumps(told).encode()) + b"." + token.split(".")[1].encode()
    signer = jwt.algorithms.ECAlgorithm(jwt.algorithms.ECAlgorithm.SHA256)
    return (said + b"." + part(signer.sign(said, key))).decode()


async def test_a_signed_token_counts_when_everything_about_it_is_right(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec

    tokens, make = signed(tmp_path)
    principal = await tokens.principal(make())
    assert principal is not None and principal.name == "ann" and principal.scopes == ("use",)
    assert (await tokens.principal(make(scope="x dragoman.admin"))).scopes == ("use", "admin")
    assert await tokens.principal(make(header={"of": "no matter"}))
    other = ec.generate_private_key(ec.SECP256R1())
    for bad in (
        make(header={"crit": ["b64"], "b64": True}),  # which we do not heed, though its library would
        make(header={"crit": ["exp"]}),
        make(header={"crit": []}),
        make(exp=time.time() - 600),
        make(exp=None),
        make(iss="https://other.example"),
        make(aud="another"),
        make(aud=None),
        make(sub=None),
        make(sub=""),
        make(sub=" "),
        make(sub=" ann"),
        make(sub="ann\nbob"),
        make(sub="a" * 300),
        make(sub="\u200bann"),
        make(nbf=time.time() + 600),
        make(with_key=other),
        make(kid="k2"),
        make(with_key="x" * 32, algorithm="HS256"),
        make(with_key=None, algorithm="none"),
        make()[:-4] + "AAAA",
        "a.b.c",
        "not a token",
    ):
        assert await tokens.principal(bad) is None, bad


async def test_who_comes_with_a_signed_token_is_in_until_it_expires(tmp_path: Path) -> None:
    tokens, make = signed(tmp_path)
    agents = {"testy": Hosted(target=Testy)}
    order = ServeOptions(agents=agents, state=tmp_path / "state", signed=tokens, workspace=str(tmp_path))
    async with serving(order, lambda: None) as (gateway, url):
        brief = make(exp=time.time() - LEEWAY + 2)
        ann = Watcher()
        async with connect(url, ann, headers={"Authorization": f"Bearer {brief}"}):
            session = await ann.new_session(tmp_path)
            assert gateway.live[session.id].facts.principal == "ann"
            await ann.until(lambda: ann.closed)
        with pytest.raises(AgentStartError):
            async with connect(url, headers={"Authorization": f"Bearer {brief}"}):
                pass
        async with connect(url, headers={"Authorization": f"Bearer {make()}"}) as again:
            assert [found.session_id for found in await again.list_sessions()] == [session.id]


async def test_a_renewed_token_goes_on_with_the_connection_that_the_one_before_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the issuer has changed its key meanwhile; what counts is the newest token, and who it names."""
    from cryptography.hazmat.primitives.asymmetric import ec

    tokens, make = signed(tmp_path)
    order = ServeOptions(
        agents={"testy": Hosted(target=Testy)}, state=tmp_path / "state", signed=tokens, workspace=str(tmp_path)
    )
    next_key = ec.generate_private_key(ec.SECP256R1())
    known = json.loads((tmp_path / "jwks.json").read_text())["keys"]
    published(tmp_path, *known, public_part(next_key, "k2"))
    brief = make(exp=time.time() + 60)
    renewed = make(kid="k2", with_key=next_key)
    async with serving(order, lambda: None) as (_, url):
        link = ServerLink(*read_url(url), None, "1.1", MAX_FRAME)
        try:
            ann, initialize = ByHand(link), {"authorization": f"Bearer {brief}"}
            await ann.initialize(**initialize)
            opening = {"id": 2, "method": "session/new", "params": {"cwd": str(tmp_path), "mcpServers": []}}
            assert (await ann.post(opening, authorization=f"Bearer {renewed}"))[0] == 202
            assert (await ann.post(opening, authorization=f"Bearer {make(sub='bob')}"))[0] == 404
            other = Watcher()
            async with connect(url, other, headers={"Authorization": f"Bearer {brief}"}):
                late = SimpleNamespace(time=lambda: time.time() + 60 + LEEWAY + 1)
                monkeypatch.setattr("dragoman.gateway.access.admission.time", late)
                await other.until(lambda: other.closed)  # so it was looked who may stay
            assert (await ann.post({**opening, "id": 3}, authorization=f"Bearer {renewed}"))[0] == 202
        finally:
            await link.close()


async def test_a_key_the_issuer_takes_back_lets_nobody_in_and_nobody_stay(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec

    tokens, make = signed(tmp_path)
    order = ServeOptions(
        agents={"testy": Hosted(target=Testy)}, state=tmp_path / "state", signed=tokens, workspace=str(tmp_path)
    )
    headers = {"Authorization": f"Bearer {make()}"}
    async with serving(order, lambda: None) as (_, url):
        ann = Watcher()
        async with connect(url, ann, headers=headers):
            await ann.new_session(tmp_path)
            published(tmp_path, public_part(ec.generate_private_key(ec.SECP256R1()), "k2"))
            await ann.until(lambda: ann.closed)
        with pytest.raises(AgentStartError):
            async with connect(url, headers=headers):
                pass
    (tmp_path / "jwks.json").unlink()
    assert await tokens.principal(make()) is None


async def test_keys_at_an_address_are_looked_at_again_and_count_no_longer_when_they_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dragoman.gateway.access import signed as module

    _, make = signed(tmp_path)
    answers = [(tmp_path / "jwks.json").read_bytes()]
    visits = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits.append(await reader.readuntil(b"\r\n\r\n"))
        status = b"302 Found\r\nLocation: /" if b"/moved" in visits[-1] else b"200 OK"
        writer.write(b"HTTP/1.0 " + status + b"\r\n\r\n" + answers[-1])
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        tokens = SignedTokens("https://id.example", "dragoman", f"http://127.0.0.1:{port}/")
        assert await tokens.principal(make()) is not None
        assert await tokens.principal(make()) is not None
        assert len(visits) == 1
        monkeypatch.setattr(module, "REFRESH", 0.0)
        assert await tokens.principal(make()) is not None  # it was looked at a moment ago
        monkeypatch.setattr(module, "FETCH_EVERY", 0.0)
        answers.append(b"nonsense")
        assert await tokens.principal(make()) is not None  # what was known counts on, for a while
        monkeypatch.setattr(module, "KEPT", 0.0)
        assert await tokens.principal(make()) is None
        monkeypatch.setattr(module, "KEPT", 3600.0)
        answers.append(b'{"keys": []}')
        assert await tokens.principal(make()) is None
        elsewhere = SignedTokens("https://id.example", "dragoman", f"http://127.0.0.1:{port}/moved")
        visits.clear()
        assert await elsewhere.principal(make()) is None
        assert len(visits) == 1  # where it was sent on to nobody went


async def test_a_key_is_for_its_own_algorithm_whatever_a_token_says(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    own = rsa.generate_private_key(65537, 2048)
    curve = ec.generate_private_key(ec.SECP384R1())
    tokens, make = signed(tmp_path)
    keys = [
        public_part(own, "named", alg="PS256"),
        public_part(own, "any"),
        public_part(own, "sealing", use="enc"),
        public_part(own, "odd", alg="HS256"),
        public_part(own, "signing only", key_ops=["sign"]),
        public_part(curve, "curve"),
    ]
    published(tmp_path, *keys)

    async def counts(kid: str, algorithm: str, key: Any = own) -> bool:
        return await tokens.principal(make(kid=kid, with_key=key, algorithm=algorithm)) is not None

    assert await counts("named", "PS256") and await counts("any", "RS256") and await counts("any", "PS512")
    assert await counts("curve", "ES384", curve)
    for kid, algorithm in (("named", "RS256"), ("sealing", "RS256"), ("odd", "RS256"), ("signing only", "RS256")):
        assert not await counts(kid, algorithm), (kid, algorithm)
    published(tmp_path, public_part(own, "twice"), public_part(curve, "twice"))
    assert not await counts("twice", "RS256")


async def test_a_token_file_that_lets_in_nobody_by_name_lets_in_nobody(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    add_token(file, "ann", "ann")
    file.write_text(file.read_text().replace('"principal": "ann"', '"principal": ""'))
    with pytest.raises(TokenFileError, match="'ann' lets in a principal without a name"):
        TokenFile(file)
    for principal in ("", " ", "a\nb", "\x1b[2J"):
        with pytest.raises(TokenFileError):
            add_token(tmp_path / "other.json", "x", principal)


async def test_a_certificate_says_who_somebody_is(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    order = ServeOptions(
        agents={"testy": Hosted(target=Testy)},
        state=tmp_path / "state",
        tls=authority.server,
        client_ca=authority.certificate,
        workspace=str(tmp_path),
    )
    trusting = ssl.create_default_context(cafile=authority.certificate)
    async with serving(order, lambda: None) as (gateway, url):
        from dragoman.transports.remote.client.websocket import dial_websocket

        with pytest.raises(AgentStartError):
            await dial_websocket(url, tls=trusting)
        trusting.load_cert_chain(*authority.carol)
        wire = await dial_websocket(url, tls=trusting)
        watcher = Watcher()
        async with connect(wire, watcher):
            session = await watcher.new_session(tmp_path)
            assert gateway.live[session.id].facts.principal == "carol"


async def test_errors_of_the_agent_pass_as_they_are(tmp_path: Path) -> None:
    async with hosting(tmp_path) as house, house.visit() as ann:
        session = await ann.new_session(tmp_path)
        with pytest.raises(RpcError) as caught:
            await session.prompt("error -32011 something odd")
        assert (caught.value.code, caught.value.message) == (-32011, "something odd")
        with pytest.raises((InvalidParams, MethodNotFound)):
            await ann.authenticate("nothing of the kind")
