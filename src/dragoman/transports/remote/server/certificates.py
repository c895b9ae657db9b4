"""A server's certificate, read again while it serves: it is renewed every few weeks, connections last longer."""

import ssl


def reload_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Have new connections see the certificate that is in the files now; those that are open stay as they are.

    Raises OSError when the two cannot be used, and the one before goes on being used.
    """
    trial = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trial.load_cert_chain(certificate, key)  # half of a new pair would leave the context without any
    context.load_cert_chain(certificate, key)
