"""Where URLs lead: read as every program reads them, resolved, looked at, and connected to just there."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway.certificates import Authority

from dragoman.foundation import destinations
from dragoman.foundation.destinations import PUBLIC_ONLY, DestinationRefused, connected, find, is_public

PUBLIC = "93.184.215.14"
NAMES: dict[str, list[str]] = {
    "example.com": [PUBLIC, "2606:2800:21f:cb07:6820:80da:af6b:8b2c"],
    "mcp.example.com": [PUBLIC],
    "loopback.example.com": ["127.0.0.1"],
    "both.example.com": [PUBLIC, "127.0.0.1"],
    "six.example.com": ["::1"],
    "mapped.example.com": ["::ffff:10.0.0.1"],
    "translated.example.com": ["64:ff9b::7f00:1"],
    "metadata.example.com": ["169.254.169.254"],
    "shared.example.com": ["100.64.0.1"],
    "zero.example.com": ["0.0.0.0"],
    "tunnel.example.com": ["2002:7f00:1::"],
}


@pytest.fixture(autouse=True)
def resolver(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names lead where `NAMES` says and nowhere else; gives the names that were asked for."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def resolve(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else str(host)
        asked.append(name)
        with contextlib.suppress(ValueError):
            destinations.ipaddress.ip_address(name.partition("%")[0])
            return real(host, port, *arguments, **options)
        if name == "localhost":
            return real("127.0.0.1", port, *arguments, **options)
        found = [real(address, port, *arguments, **options) for address in NAMES.get(name.rstrip("."), [])]
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [entry for entries in found for entry in entries]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return asked


BAD = [
    *("https://127.0.0.1\\@example.com/", "https://example.com\\@127.0.0.1/", "https://example.com@127.0.0.1/"),
    *("http://example.com/", "ws://example.com/", "ftp://example.com/", "file:///etc/passwd", "https:example.com"),
    *("https://localhost/", "https://localhost.localdomain/", "https://localhost./", "https://a.localhost/"),
    *("https://printer.local/", "https://db.internal/", "https://router.lan/", "https://intranet/", "https:///x"),
    *("https://127.0.0.1/", "https://127.1/", "https://2130706433/", "https://0x7f.1/", "https://0177.0.0.1/"),
    *("https://127.0.0.1.:443/", "https://%31%32%37.0.0.1/", "https://①②⑦.0.0.1/", "https://127。0。0。1/"),
    *("https://0.0.0.0/", "https://0/", "https://10.0.0.1/", "https://172.16.0.1/", "https://192.168.0.1/"),
    *("https://169.254.169.254/latest", "https://100.64.0.1/", "https://224.0.0.1/", "https://255.255.255.255/"),
    *("https://[::1]/", "https://[::]/", "https://[fe80::1]/", "https://[fe80::1%25eth0]/", "https://[fc00::1]/"),
    *(
        "https://[::ffff:127.0.0.1]/",
        "https://[::ffff:7f00:1]/",
        "https://[64:ff9b::7f00:1]/",
        "https://[64:ff9b::a00:1]/",
    ),
    *("https://[2002:7f00:1::]/", "https://[2001::1]/", "https://[64:ff9b:1::1]/", "https://[::127.0.0.1]/"),
    *("https://loopback.example.com/", "https://both.example.com/", "https://six.example.com/"),
    *("https://mapped.example.com/", "https://translated.example.com/", "https://metadata.example.com/"),
    *("https://shared.example.com/", "https://zero.example.com/", "https://tunnel.example.com/"),
    *(
        "https://nowhere.example.org/",
        "https://example.com:99999/",
        "https://exa mple.com/",
        "https://example.com\t/",
    ),
    *(
        "https://example.com\0.evil/",
        "https://example.com\n/",
        "https://user:pw@example.com/",
        "https://",
        "",
        "//a",
    ),
    *("https://exam_ple..com/", "https://-a.example.com/", "https://ex%00ample.com/", "https://éxample.com/"),
]


@pytest.mark.parametrize("url", BAD)
def test_a_url_that_leads_to_a_private_place_or_to_two_is_refused(url: str, resolver: list[str]) -> None:
    with pytest.raises(DestinationRefused):
        find(url)
    assert all(name in NAMES or "." in name or ":" in name for name in resolver)


@pytest.mark.parametrize(
    "url", ["https://example.com/", "https://mcp.example.com:8443/x?y=1", f"https://{PUBLIC}/"]
)
def test_a_public_url_is_found_with_its_addresses(url: str) -> None:
    place = find(url)
    assert PUBLIC in place.addresses
    assert all(map(is_public, place.addresses))


def test_a_host_of_this_machine_is_found_where_it_is_named_as_that_and_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schemes = ("http", "https")
    assert find("http://127.0.0.1:8000/", schemes, local=True).addresses == ["127.0.0.1"]
    assert find("http://localhost:8000/", schemes, local=True).addresses == ["127.0.0.1"]
    for url in (
        "http://loopback.example.com/",
        "http://169.254.169.254/",
        "http://0.0.0.0/",
        "http://printer.local/",
    ):
        with pytest.raises(DestinationRefused):
            find(url, schemes, local=True)
    monkeypatch.setenv(PUBLIC_ONLY, "1")
    with pytest.raises(DestinationRefused):
        find("http://127.0.0.1:8000/", schemes, local=True)


@contextlib.contextmanager
def looked_at_as_public(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> Iterator[None]:
    with monkeypatch.context() as patch:
        before: Callable[[str], bool] = destinations.is_public
        patch.setattr(destinations, "is_public", lambda address: address in addresses or before(address))
        yield


def test_a_connection_goes_to_the_address_that_was_looked_at_and_asks_for_no_name_again(
    monkeypatch: pytest.MonkeyPatch, resolver: list[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as public, socket.create_server(("127.0.0.2", 0)) as private:
        port = public.getsockname()[1]
        monkeypatch.setitem(NAMES, "mcp.example.com", ["127.0.0.1"])
        with looked_at_as_public(monkeypatch, "127.0.0.1"):
            place = find(f"https://mcp.example.com:{port}/")
        monkeypatch.setitem(NAMES, "mcp.example.com", [private.getsockname()[0]])  # by now it leads elsewhere
        with connected(place, 10) as sock:
            assert sock.getpeername() == ("127.0.0.1", port)
    assert resolver.count("mcp.example.com") == 1


async def test_a_client_for_public_servers_goes_to_the_address_that_was_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resolver: list[str]
) -> None:
    from dragoman.mcp.transports.public import PublicTransport

    httpx2 = pytest.importorskip("httpx2")
    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.server)
    trusting = ssl.create_default_context(cafile=authority.certificate)
    visits: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits.append(await reader.readuntil(b"\r\n\r\n"))
        place = b"https://loopback.example.com/" if b"/away" in visits[-1] else b"https://mcp.example.com/again"
        status = b"302 Found" if b"/away" in visits[-1] else b"200 OK"
        writer.write(b"HTTP/1.1 " + status + b"\r\nLocation: " + place + b"\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    monkeypatch.setitem(NAMES, "mcp.example.com", ["127.0.0.1"])
    client = httpx2.AsyncClient(transport=PublicTransport(trusting), trust_env=False)
    async with server, client:
        with looked_at_as_public(monkeypatch, "127.0.0.1"):
            answer = await client.get(f"https://mcp.example.com:{port}/x")
            assert answer.status_code == 200  # with the certificate of the name, at the address
            assert b"host: mcp.example.com" in visits[0].lower()
        with pytest.raises(httpx2.ConnectError, match="not on the public internet"):
            await client.get(f"https://mcp.example.com:{port}/x")  # the name leads elsewhere by now
        with pytest.raises(httpx2.ConnectError):
            await client.get(f"http://{PUBLIC}/")
    assert len(visits) == 1
    assert "mcp.example.com" in resolver
