"""Checks a server's certificate, key and trusted certificates before the server starts.

Without the check runners would fail to verify the server, and retry for ever.
"""

import httpx
import structlog

from jobmanager.protocol.tls_trust import fault_of_certificate, fault_of_key, trust_in
from jobmanager.settings import Settings

_log = structlog.get_logger(__name__)


class UnusableTls(Exception):
    """The server cannot use these files; the message says why and what to do."""


def check_files(settings: Settings) -> None:
    """Check that the files can be read and belong together. Raises `UnusableTls`."""
    certificate, key = settings.tls_cert, settings.tls_key
    if certificate and key and (fault := fault_of_key(certificate, key)):
        raise UnusableTls(
            f"{certificate} and {key} cannot be used for TLS: {fault}; give a certificate and its "
            "key, without a passphrase, as PEM"
        )
    try:
        trust_in(settings.trusted_ca)
    except OSError as error:
        raise UnusableTls(
            f"--ca {settings.trusted_ca} has no certificates: {error.strerror or error}"
        ) from error


def check_certificate(settings: Settings, url: str) -> None:
    """Check that the certificate is valid for the server's address. Raises `UnusableTls`."""
    if not (settings.tls_cert and settings.tls_key and settings.trusted_ca):
        return
    host = httpx.URL(url).host
    fault = fault_of_certificate(settings.tls_cert, settings.tls_key, settings.trusted_ca, host)
    if fault is None:
        return
    if settings.advertise:  # a proxy with another certificate may answer there
        _log.warning("certificate not valid for the advertised address", url=url, fault=fault)
        return
    raise UnusableTls(
        f"runners could not verify the server at {url}: {fault}; name the address that the "
        "certificate is for with --advertise https://NAME:PORT, and the certificate of its issuer "
        "with --ca"
    )
