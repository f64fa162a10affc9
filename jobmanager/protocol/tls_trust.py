"""TLS between the parts of a cluster: whom a runner, a server or a client believes."""

import ssl
from pathlib import Path

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Of TLS 1.2, which needs to be told; those of TLS 1.3 are all fine."""
_ROUNDS = 8


def trust_in(ca: Path | None) -> ssl.SSLContext:
    """Believes certificates that the file has, or that an authority in it has issued; None: what
    the machine believes. Raises OSError or ssl.SSLError.
    """
    context = ssl.create_default_context(cafile=ca)
    # A server's own certificate will do, though it is no authority's.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def fault_of_key(certificate: Path, key: Path) -> str | None:
    """Why no server can use the two files."""
    try:
        _server_side(certificate, key)
    except (OSError, ssl.SSLError) as error:
        return str(getattr(error, "reason", None) or error.strerror or error)
    return None


def fault_of_certificate(certificate: Path, key: Path, ca: Path, host: str) -> str | None:
    """Why somebody who believes `ca` would not talk to a server with the certificate, at `host`;
    None: all is well. The two are let talk to each other, without a network.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = _server_side(certificate, key).wrap_bio(to_server, to_client, server_side=True)
    client = trust_in(ca).wrap_bio(to_client, to_server, server_hostname=host)
    try:
        for _ in range(_ROUNDS):
            for side in (client, server):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except ssl.SSLError as error:
        return str(error.reason or error)
    return None


def _server_side(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
