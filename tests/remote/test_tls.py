"""Encrypted wires: trusted ones work in the newest version both speak, others are refused in one line."""

import shutil
import ssl
import subprocess

import pytest

from dragoman import AgentStartError, connect
from dragoman.testing import Testy
from dragoman.transports.http import dial_http

from .serving import WIRES, dial, served

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the certificate")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate for this machine that nobody but the test trusts."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    options = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(["openssl", "req", *options, *subject, *files], check=True, capture_output=True)
    return str(certificate), str(key)


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
