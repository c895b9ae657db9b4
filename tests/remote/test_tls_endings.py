"""TLS that ends in the middle of an answer: by an alert, without close_notify, or with it."""

import asyncio
import json
import re
import shutil
import ssl
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from dragoman import connect
from dragoman import schema as s
from dragoman.errors import Error
from dragoman.testing import Testy

from .foreign import listening, response, told
from .hostile_forms import EventsServer, Socket2
from .hostile_servers import SOCKETS, Server, StreamServer, chunk, chunked, ended, events, good, sockets, text
from .serving import WIRES, dial, served
from .test_tls import make_certificate
from .tls_by_hand import ENDINGS, MARK, TlsProxy

pytestmark = [
    pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the certificate"),
    pytest.mark.usefixtures("nothing_left"),
]

LIMIT = 30  # seconds
ENDS = 3  # times that a turn's connection ends


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("tls"))


@asynccontextmanager
async def behind_tls(url, wire, certificate, ending, times=1):
    """The address of a plain server behind TLS that ends so, what trusts it, and the proxy."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    context.set_alpn_protocols(["h2" if wire == "http/2" else "http/1.1"])
    proxy = TlsProxy(context, urlsplit(url).port, ending, times)
    async with listening(proxy.serve, "https") as secure:
        yield secure, ssl.create_default_context(cafile=certificate[0]), proxy


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("wire", WIRES)
async def test_a_turn_goes_on_when_its_tls_ends_in_the_middle(wire, ending, certificate):
    """Each time in the middle of a message, with more behind it."""
    said = [f"echo {number}" if number % 5 else f"echo {MARK.decode()}" for number in range(ENDS * 5)]
    async with (
        asyncio.timeout(LIMIT),
        served(Testy) as server,
        behind_tls(server.url(), wire, certificate, ending, ENDS) as (url, trusted, proxy),
        connect(await dial(wire, url, tls=trusted)) as client,
    ):
        session = await client.new_session("/")
        turn = session.prompt("\n".join(said))
        heard = [f"echo {update.content.text}" async for update in turn if isinstance(update, s.AgentMessageChunk)]
        assert (heard, turn.response.stop_reason) == (said, "end_turn")
    assert proxy.ended == ENDS


# Servers that keep no log


async def half_an_event(server, request, writer):
    writer.write(chunked() + chunk(events(told("hello"))))
    await server.heard.wait()
    writer.write(chunk(b'data: {"jsonrpc": "' + MARK))


async def half_an_event_on_the_stream(server, request, writer):
    writer.write(response(status="202 Accepted"))
    server.streams[None].write(chunk(events(told("hello"))))
    await server.heard.wait()
    server.streams[None].write(chunk(b'data: {"jsonrpc": "' + MARK))


async def half_a_body(server, request, writer):
    writer.write(response({"mark": MARK.decode(), **good(request)})[:-5])


async def a_body_that_ends_with_its_socket(server, request, writer):
    """Where it ends, only its socket can tell."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n"
    writer.write(head + json.dumps({"mark": MARK.decode(), **good(request)}).encode())


async def half_a_head(server, request, writer):
    writer.write(b"HTTP/1.1 200 OK\r\nx: " + MARK)


HALVES = [
    ("http/1.1", Server, half_an_event),
    ("http/2", Server, half_an_event),
    ("http/1.1", EventsServer, half_an_event_on_the_stream),
    ("http/1.1", StreamServer, half_an_event_on_the_stream),
    ("http/2", StreamServer, half_an_event_on_the_stream),
    ("http/1.1", Server, half_a_body),
    ("http/2", Server, half_a_body),
    ("http/1.1", Server, a_body_that_ends_with_its_socket),
    ("http/1.1", Server, half_a_head),
]
WHY = "no answer came|contains no answer|ended the connection|the connection dropped"


async def outcome(client, heard):
    """What a turn said, and the sentence that it failed with; `heard` is set once it has said something."""
    said = []
    session = await client.new_session("/")
    with pytest.raises(Error) as failed:
        async for update in session.prompt("go"):
            said.append(update.content.text)
            heard.set()
    return said, str(failed.value)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(("wire", "form", "half"), HALVES)
async def test_a_turn_whose_tls_ends_in_the_middle_fails_with_a_sentence(wire, form, half, ending, certificate):
    server = form(half)
    server.heard = asyncio.Event()

    async def serve(reader, writer):
        await (Socket2(server, writer).run(reader) if wire == "http/2" else server(reader, writer))

    async with (
        asyncio.timeout(LIMIT),
        listening(serve) as plain,
        behind_tls(plain, wire, certificate, ending) as (url, trusted, proxy),
        connect(await dial(wire, url, tls=trusted)) as client,
    ):
        said, why = await outcome(client, server.heard)
    assert said == (["hello"] if "event" in half.__name__ else [])
    assert re.search(WHY, why)
    assert ("TLS failed" in why) == (ending == "a fatal alert")
    assert proxy.ended == 1


@pytest.mark.parametrize("ending", ENDINGS)
async def test_a_websocket_whose_tls_ends_in_the_middle_fails_with_a_sentence(ending, certificate):
    heard = asyncio.Event()

    @sockets("error")
    async def half_a_frame(message, reader, writer):
        writer.write(text(told("hello")))
        await heard.wait()
        writer.write(text({"mark": MARK.decode(), **ended(message)})[:-5])

    serve = SOCKETS.pop("half_a_frame")[0]()
    async with (
        asyncio.timeout(LIMIT),
        listening(serve) as plain,
        behind_tls(plain, "websocket", certificate, ending) as (url, trusted, proxy),
        connect(await dial("websocket", url, tls=trusted)) as client,
    ):
        said, why = await outcome(client, heard)
    assert (said, proxy.ended) == (["hello"], 1)
    assert re.search(WHY, why)
    assert ("TLS failed" in why) == (ending == "a fatal alert")
