"""Where a URL leads, what goes there, and what is said when it leads nowhere."""

import socket
import subprocess
import sys

import pytest

from dragoman import AgentStartError, connect
from dragoman.testing import Echo
from dragoman.transports.remote.addresses import read_url
from dragoman.transports.remote.cookies import CookieJar

from .serving import WIRES, dial, served


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("ftp://host/acp", "no transport for ftp://"),
        ("ws:///acp", "needs a host"),
        ("http://host:port/acp", "cannot be read"),
        ("http://host/a b", "percent-encoded"),
        ("http://name:secret@example.com/acp", "not sent to http://example.com/acp in the clear"),
    ],
)
async def test_a_url_that_leads_nowhere_is_refused_in_one_line(url, complaint):
    with pytest.raises(AgentStartError, match=complaint) as caught:
        async with connect(url):
            raise NotImplementedError
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_a_port_nobody_listens_at_is_named_without_its_query(scheme):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        with pytest.raises(AgentStartError) as caught:
            async with connect(f"{scheme}://127.0.0.1:{port}/acp?token=secret"):
                raise NotImplementedError
    assert str(caught.value) == f"cannot reach {scheme}://127.0.0.1:{port}/acp: connection refused"


def test_credentials_of_a_url_become_a_header():
    address, headers = read_url("https://us%40er:p%3Aw@example.com/acp")
    assert address.authority == "example.com"
    assert headers == [("authorization", "Basic dXNAZXI6cDp3")]


def test_credentials_may_stay_on_this_machine_in_the_clear():
    for host in ("localhost", "127.0.0.1", "[::1]"):
        read_url(f"http://{host}:1/acp", {"Authorization": "Bearer x"})


def test_a_missing_extra_says_what_to_install():
    program = (
        "import sys, asyncio; sys.modules['websockets'] = None\n"
        "from dragoman import connect\n"
        "async def main():\n"
        "    async with connect('ws://127.0.0.1:1/'): pass\n"
        "try: asyncio.run(main())\n"
        "except Exception as exc: print(exc)"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "pip install 'dragoman[remote]'" in said


def test_cookies_are_kept_replaced_and_taken_away():
    jar = CookieJar()
    jar.store(["a=1; Path=/; HttpOnly", "b=2", "nonsense", "=3", "c=4; Max-Age=0"])
    assert jar.header == "a=1; b=2"
    jar.store(["a=5", "b=; Expires=Thu, 01 Jan 1970 00:00:00 GMT"])
    assert jar.header == "a=5"


def test_a_server_cannot_make_us_carry_ever_more_cookies():
    jar = CookieJar()
    jar.store([f"c{number}=x" for number in range(1000)] + ["long=" + "x" * 5000, "evil=a\r\nb: c"])
    assert len(jar.header.split(";")) == 50
    assert "evil" not in jar.header


@pytest.mark.parametrize("name", ["Authorization", "X-Api-Key", "Cookie", "Proxy-Authorization", "X-Auth-Token"])
def test_no_credential_goes_over_an_open_network_in_the_clear(name):
    for url in ("http://example.com/acp", "ws://example.com/acp", "http://192.0.2.1/acp", "http://[fe80::1]/acp"):
        with pytest.raises(AgentStartError, match="in the clear") as caught:
            read_url(url, {name: "s3cr3t"})
        assert "s3cr3t" not in str(caught.value)
    assert read_url("http://127.0.0.1/acp", {name: "s3cr3t"})[1] == [(name.lower(), "s3cr3t")]
    assert read_url("https://example.com/acp", {name: "s3cr3t"})[1] == [(name.lower(), "s3cr3t")]


@pytest.mark.parametrize(
    "value", ["s3cr3t\nx: y", "s3\r\ncr3t", "s3cr3t\x00", "s3cr3t\u2028", "s3cr3t\x7f", "s\u0141"]
)
@pytest.mark.parametrize("wire", WIRES)
async def test_a_value_that_no_header_can_have_is_refused_and_told_to_nobody(wire, value, caplog):
    with pytest.raises(AgentStartError) as caught:
        await dial(wire, "http://127.0.0.1:1/acp", headers={"Authorization": f"Bearer {value}"})
    assert "authorization" in str(caught.value).lower()
    assert "s3" not in str(caught.value)
    assert "s3cr3t" not in caplog.text


def test_the_newline_of_a_token_s_file_is_no_part_of_the_token():
    assert read_url("https://example.com", {"Authorization": "Bearer s3cr3t\n"})[1] == [
        ("authorization", "Bearer s3cr3t")
    ]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_token_reaches_the_server_without_the_newline_of_its_file(wire):
    seen = []

    async def admit(request):
        seen.append(request.headers["authorization"])
        return "somebody"

    async with served(Echo, admit=admit) as server:
        headers = {"Authorization": "Bearer s3cr3t\r\n"}
        async with connect(await dial(wire, server.url(), headers=headers)) as client:
            await client.new_session("/")
    assert set(seen) == {"Bearer s3cr3t"}


@pytest.mark.parametrize(
    "host", ["a..b", "-" * 64 + ".example", "exa mple", "a/b@", "é" * 70, "*.example", "\u3002"]
)
async def test_a_host_that_is_none_is_refused_in_words(host):
    for scheme in ("ws", "http"):
        with pytest.raises(AgentStartError):
            await dial("websocket" if scheme == "ws" else "http/1.1", f"{scheme}://{host}/acp")


def test_a_host_of_any_script_is_asked_for_as_the_system_does():
    assert read_url("https://bücher.example/acp")[0].host == "xn--bcher-kva.example"
    _, interface = socket.if_nameindex()[0]
    assert read_url(f"https://[fe80::1%25{interface}]/acp")[0].node == f"fe80::1%{interface}"
