"""Remote agents behind the proxy that the environment names."""

import asyncio
import shutil
import ssl
from base64 import b64encode

import pytest

from dragoman import AgentStartError, connect
from dragoman.testing import Echo
from dragoman.transports.remote.addresses import read_url
from dragoman.transports.remote.proxies import proxy_for

from .foreign import listening, read_request
from .serving import WIRES, dial, served
from .test_tls import make_certificate

pytestmark = pytest.mark.usefixtures("nothing_left")

LIMIT = 20  # seconds
NAMES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def proxy_to(port, asked, status="200 Connection established"):
    """A proxy behind which every host is one port of this machine."""

    async def serve(reader, writer):
        request = await read_request(reader)
        asked.append(request)
        writer.write(f"HTTP/1.1 {status}\r\n\r\n".encode())
        theirs, ours = await asyncio.open_connection("127.0.0.1", port)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(passed(reader, ours))
                both.create_task(passed(theirs, writer))
        finally:
            ours.transport.abort()

    return serve


async def passed(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_an_agent_is_reached_through_the_proxy_that_the_environment_names(scheme, monkeypatch):
    asked = []
    async with asyncio.timeout(LIMIT), served(Echo) as server, listening(proxy_to(server.port, asked)) as proxy:
        monkeypatch.setenv("http_proxy", proxy.replace("http://", "http://ann:p%40ss@"))
        async with connect(f"{scheme}://agent.invalid:8080/") as client:
            session = await client.new_session("/")
            assert (await session.prompt("hello")).stop_reason == "end_turn"
    assert {(request.method, request.target) for request in asked} == {("CONNECT", "agent.invalid:8080")}
    assert asked[0].headers["proxy-authorization"] == "Basic " + b64encode(b"ann:p@ss").decode()


@pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the certificate")
@pytest.mark.parametrize("wire", WIRES)
async def test_what_goes_through_a_proxy_is_encrypted_for_the_agent(wire, monkeypatch, tmp_path):
    certificate, key = make_certificate(tmp_path, "DNS:agent.invalid")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    trusted, asked = ssl.create_default_context(cafile=certificate), []
    async with (
        asyncio.timeout(LIMIT),
        served(Echo, tls=context) as server,
        listening(proxy_to(server.port, asked)) as proxy,
    ):
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        for name in ("agent.invalid", "another.invalid"):
            url, secret = f"https://{name}/", {"Authorization": "Bearer s3cr3t"}
            try:
                async with connect(await dial(wire, url, tls=trusted, headers=secret)) as client:
                    session = await client.new_session("/")
                    assert (await session.prompt("hello")).stop_reason == "end_turn"
                    assert name == "agent.invalid"
            except AgentStartError as exc:
                assert name == "another.invalid"
                assert "certificate is not trusted" in str(exc)
    assert "s3cr3t" not in str(asked)


async def test_a_proxy_that_refuses_is_named_without_its_password(monkeypatch):
    async with asyncio.timeout(LIMIT), listening(proxy_to(1, [], "407 Proxy Authentication Required")) as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.replace("http://", "http://ann:s3cr3t@"))
        with pytest.raises(AgentStartError, match="answered with status 407") as caught:
            async with connect("ws://agent.invalid/"):
                raise NotImplementedError
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "environment", "proxy"),
    [
        ("wss://agent.invalid/", {"https_proxy": "http://p.invalid:3128"}, "p.invalid:3128"),
        ("https://agent.invalid/", {"HTTPS_PROXY": "p.invalid"}, "p.invalid:80"),
        ("wss://agent.invalid/", {"http_proxy": "http://p.invalid:3128"}, None),
        ("http://agent.invalid/", {"all_proxy": "http://p.invalid:1"}, "p.invalid:1"),
        ("wss://agent.invalid/", {"all_proxy": "http://p.invalid:1", "no_proxy": "other,agent.invalid"}, None),
        ("wss://a.agent.invalid/", {"all_proxy": "http://p.invalid:1", "no_proxy": ".agent.invalid"}, None),
        ("wss://agent.invalid/", {"all_proxy": "http://p.invalid:1", "no_proxy": "*"}, None),
        ("ws://127.0.0.1:1/", {"all_proxy": "http://p.invalid:1"}, None),
        ("ws://localhost:1/", {"http_proxy": "http://p.invalid:1"}, None),
    ],
)
def test_which_proxy_leads_to_an_address(url, environment, proxy, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = proxy_for(read_url(url)[0])
    assert (found and found.shown) == proxy


@pytest.mark.parametrize("proxy", ["socks5://p.invalid:1080", "https://p.invalid", "http://", "http://p:port"])
async def test_a_proxy_that_cannot_be_used_is_refused_in_words(proxy, monkeypatch):
    monkeypatch.setenv("all_proxy", proxy)
    with pytest.raises(AgentStartError, match="proxy"):
        async with connect("wss://agent.invalid/"):
            raise NotImplementedError
