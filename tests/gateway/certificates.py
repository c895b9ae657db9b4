"""Certificates for tests: an authority, one of it for a server on this machine, one for a client called carol."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

Files = tuple[str, str]  # a certificate and its key


class Authority:
    """Issues certificates into a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.certificate, _ = self._issue("authority", self._key, is_authority=True)
        self.server, self.carol = self.issue("server"), self.issue("carol")

    def issue(self, name: str) -> Files:
        """A certificate in a name; issued again it takes the place of the one before."""
        return self._issue(name, ec.generate_private_key(ec.SECP256R1()))

    def _issue(self, name: str, key: ec.EllipticCurvePrivateKey, *, is_authority: bool = False) -> Files:
        now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
        names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("mcp.example.com")]
        here = x509.SubjectAlternativeName(names)
        builder = (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(_named("authority"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + day)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(here, critical=False)
        )
        files = self._directory / f"{name}.pem", self._directory / f"{name}.key"
        files[0].write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        private = serialization.PrivateFormat.PKCS8
        files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption()))
        return str(files[0]), str(files[1])


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
