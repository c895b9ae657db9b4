"""Certificates that do not hold: each is one line, when a wire is dialled and when it would come back."""

import asyncio
import shutil
import ssl
import subprocess

import pytest

from dragoman import AgentStartError, ConnectionClosed, connect
from dragoman.testing import Testy

from .cutting import relay
from .serving import WIRES, dial, served

pytestmark = [
    pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the certificates"),
    pytest.mark.usefixtures("nothing_left"),
]

LIMIT = 30  # seconds
OURS = "IP:127.0.0.1"
FAULTS = {
    "expired": "certificate has expired",
    "another host": "IP address mismatch, certificate is not valid for '127.0.0.1'",
    "self-signed chain": "self-signed certificate in certificate chain",
    "missing intermediate": "unable to get local issuer certificate",
}


class Authority:
    """Signs certificates; made by another, or by itself."""

    def __init__(self, folder, name, parent=None):
        self.folder, self.name = folder, name
        self.certificate = parent.sign(name, "basicConstraints=critical,CA:TRUE") if parent else self._own()

    def _own(self):
        run("req", "-x509", *NEW_KEY, "-subj", f"/CN={self.name}", *self._files(self.name, "pem"))
        return self.folder / f"{self.name}.pem"

    def sign(self, name, extension, days=2):
        run("req", *NEW_KEY, "-subj", f"/CN={name}", *self._files(name, "request"))
        (self.folder / f"{name}.ext").write_text(extension)
        signer = ["-CA", self.certificate, "-CAkey", self.folder / f"{self.name}.key", "-CAcreateserial"]
        ours = ["-in", self.folder / f"{name}.request", "-extfile", self.folder / f"{name}.ext"]
        run("x509", "-req", *ours, *signer, "-days", days, "-out", self.folder / f"{name}.pem")
        return self.folder / f"{name}.pem"

    def _files(self, name, kind):
        return ["-keyout", self.folder / f"{name}.key", "-out", self.folder / f"{name}.{kind}"]


NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


def run(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture(scope="module")
def chains(tmp_path_factory):
    """Contexts of servers, by what is wrong with them, and the root that clients trust."""
    folder = tmp_path_factory.mktemp("chains")
    root, stranger = Authority(folder, "root"), Authority(folder, "stranger")
    middle = Authority(folder, "middle", root)
    good = middle.sign("good", f"subjectAltName={OURS}")
    made = {
        "none": [good, middle.certificate],
        "expired": [middle.sign("old", f"subjectAltName={OURS}", days=-1), middle.certificate],
        "another host": [middle.sign("other", "subjectAltName=DNS:elsewhere.example"), middle.certificate],
        "self-signed chain": [stranger.sign("strange", f"subjectAltName={OURS}"), stranger.certificate],
        "missing intermediate": [good],
    }
    contexts = {}
    for fault, files in made.items():
        chain = folder / "chain.pem"
        chain.write_bytes(b"".join(file.read_bytes() for file in files))
        contexts[fault] = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        contexts[fault].load_cert_chain(chain, files[0].with_suffix(".key"))
    return contexts, str(root.certificate)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_chain_that_does_not_hold_is_one_line(wire, fault, chains):
    contexts, root = chains
    trusted = ssl.create_default_context(cafile=root)
    async with asyncio.timeout(LIMIT), served(Testy, tls=contexts[fault]) as server:
        with pytest.raises(AgentStartError) as caught:
            await dial(wire, server.url(), tls=trusted)
    assert f"certificate is not trusted: {FAULTS[fault]}" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_chain_that_no_longer_holds_ends_the_connection_once_patience_is_over(wire, fault, chains):
    contexts, root = chains
    trusted = ssl.create_default_context(cafile=root)
    async with (
        asyncio.timeout(LIMIT),
        served(Testy, tls=contexts["none"]) as server,
        served(Testy, tls=contexts[fault]) as other,
        relay(server.url()) as (url, way),
        connect(await dial(wire, url, tls=trusted, patience=0.5)) as client,
    ):
        pending = (await client.new_session("/")).prompt("wait")
        way.lead_to(other.port)
        way.cut()
        with pytest.raises(ConnectionClosed, match="certificate is not trusted"):
            await pending
