"""TLS between clients, servers and runners: which certificates are trusted."""

import ssl
from pathlib import Path

CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""For TLS 1.2; all ciphers of TLS 1.3 are fine."""
_ROUNDS = 8


def trust_in(ca: Path | None) -> ssl.SSLContext:
    """Return TLS settings that trust the certificates in the file and those issued by them; None:
    those that the machine trusts. Raises OSError or ssl.SSLError.
    """
    context = ssl.create_default_context(cafile=ca)
    # So that the file may contain a server's own certificate instead of its authority's.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def fault_of_key(certificate: Path, key: Path) -> str | None:
    """Return why a server cannot use the two files; None: it can."""
    try:
        _server_side(certificate, key)
    except (OSError, ssl.SSLError) as error:
        return str(getattr(error, "reason", None) or error.strerror or error)
    return None


def fault_of_certificate(certificate: Path, key: Path, ca: Path, host: str) -> str | None:
    """Return why a client that trusts `ca` would not connect to a server with the certificate at
    `host`; None: it would. A TLS handshake is tried in memory.
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
