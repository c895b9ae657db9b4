"""Reload a server's certificate while it runs: certificates are renewed every few weeks, servers run longer."""

import ssl


def reload_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Use the certificate that is in the files now for new connections; open ones do not change.

    Raises OSError when the files cannot be used; the previous certificate is then kept.
    """
    trial = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trial.load_cert_chain(certificate, key)  # half of a new pair would leave the context without a certificate
    context.load_cert_chain(certificate, key)
