"""Encrypted wires: trusted ones work in the newest version both speak, others are refused in one line."""

import asyncio
import shutil
import ssl
import subprocess
import threading
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from dragoman import AgentStartError, connect
from dragoman.testing import Testy
from dragoman.transports.remote.client.http import dial_http
from dragoman.transports.remote.server.certificates import reload_certificate

from .serving import WIRES, dial, served

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the certificate")


def make_certificate(folder, names="IP:127.0.0.1,DNS:localhost"):
    """A certificate for this machine, or whatever it is called, and its key, as files."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", f"subjectAltName={names}"]
    options = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", *options, *subject, *files], check=True, capture_output=True)
    return str(certificate), str(key)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate that nobody but the test trusts."""
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def server_tls(certificate):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)
    return context


@pytest.mark.parametrize("wire", WIRES)
async def test_a_turn_over_a_trusted_wire(wire, certificate, server_tls, nothing_left):
    async with served(Testy, tls=server_tls) as server:
        trusted = ssl.create_default_context(cafile=certificate[0])
        async with connect(await dial(wire, server.url(), tls=trusted)) as client:
            session = await client.new_session("/")
            assert (await session.prompt("echo hello")).stop_reason == "end_turn"


@pytest.mark.parametrize("wire", WIRES)
async def test_the_certificates_of_the_system_are_read_beside_the_loop(
    wire, certificate, server_tls, monkeypatch, nothing_left
):
    """They are thousands of lines: read in the loop they would hold up everybody at every dial."""
    monkeypatch.setenv("SSL_CERT_FILE", certificate[0])
    threads, make = [], ssl.create_default_context

    def noting(*arguments, **options):
        threads.append(threading.current_thread())
        return make(*arguments, **options)

    async with served(Testy, tls=server_tls) as server:
        monkeypatch.setattr(ssl, "create_default_context", noting)
        async with connect(await dial(wire, server.url())) as client:
            assert (await (await client.new_session("/")).prompt("echo hello")).stop_reason == "end_turn"
    assert threads
    assert threading.current_thread() not in threads


async def test_the_newest_version_is_found_by_itself(certificate, server_tls, nothing_left):
    async with served(Testy, tls=server_tls) as server:
        wire = await dial_http(server.url(), tls=ssl.create_default_context(cafile=certificate[0]))
        assert wire.link.version == "2"
        async with connect(wire) as client:
            assert (await (await client.new_session("/")).prompt("echo hello")).stop_reason == "end_turn"


@pytest.mark.parametrize("wire", ["websocket", "http/2"])
async def test_a_certificate_nobody_trusts_is_refused(wire, server_tls):
    async with served(Testy, tls=server_tls) as server:
        with pytest.raises(AgentStartError, match=r"certificate is not trusted: self-signed certificate"):
            await dial(wire, server.url())


@asynccontextmanager
async def turns_on(wires, server, tls):
    """Clients on each wire in the middle of a turn; all of them go on to its end."""
    async with AsyncExitStack() as stack:
        sessions = []
        for wire in wires:
            client = await stack.enter_async_context(connect(await dial(wire, server.url(), tls=tls, patience=0)))
            sessions.append(await client.new_session("/"))
        turns = [session.prompt("wait") for session in sessions]
        yield
        for session, turn in zip(sessions, turns, strict=True):
            session.cancel()
            assert (await turn).stop_reason == "cancelled"


async def test_a_renewed_certificate_is_for_those_who_come_and_the_others_stay(
    certificate, server_tls, tmp_path, nothing_left
):
    renewed = make_certificate(tmp_path)
    new = ssl.create_default_context(cafile=renewed[0])
    both = ssl.create_default_context(cafile=renewed[0])
    both.load_verify_locations(certificate[0])
    async with asyncio.timeout(30), served(Testy, tls=server_tls) as server, turns_on(WIRES, server, both):
        reload_certificate(server_tls, *renewed)
        for wire in WIRES:
            with pytest.raises(AgentStartError, match="certificate is not trusted"):
                await dial(wire, server.url(), tls=ssl.create_default_context(cafile=certificate[0]))
            async with connect(await dial(wire, server.url(), tls=new)) as client:
                assert (await (await client.new_session("/")).prompt("echo hello")).stop_reason == "end_turn"


@pytest.mark.parametrize("missing", ["key", "certificate", "both"])
async def test_half_a_renewed_certificate_changes_nothing(missing, certificate, server_tls, tmp_path, nothing_left):
    renewed = make_certificate(tmp_path)
    half = {
        "key": (renewed[0], certificate[1]),
        "certificate": (certificate[0], renewed[1]),
        "both": ("/no", "/no"),
    }
    with pytest.raises(OSError, match=r"(?i)mismatch|No such file"):
        reload_certificate(server_tls, *half[missing])
    trusted = ssl.create_default_context(cafile=certificate[0])
    async with (
        served(Testy, tls=server_tls) as server,
        connect(await dial("http/2", server.url(), tls=trusted)) as c,
    ):
        assert (await (await c.new_session("/")).prompt("echo hello")).stop_reason == "end_turn"


@pytest.mark.parametrize("wire", WIRES)
async def test_a_trusted_certificate_of_somebody_else_is_refused(wire, tmp_path, nothing_left):
    files = make_certificate(tmp_path, "DNS:elsewhere.example")
    server_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_tls.load_cert_chain(*files)
    async with served(Testy, tls=server_tls) as server:
        with pytest.raises(AgentStartError, match=r"certificate is not trusted: IP address mismatch"):
            await dial(wire, server.url(), tls=ssl.create_default_context(cafile=files[0]))
