"""Whether a server's certificate, key and authorities will do: found out before it starts.

Later nobody would say it: runners would not believe the server, and try again for ever.
"""

import httpx
import structlog

from jobmanager.protocol.tls_trust import fault_of_certificate, fault_of_key, trust_in
from jobmanager.settings import Settings

_log = structlog.get_logger(__name__)


class UnusableTls(Exception):
    """The server cannot start with these files; the message says why and what to do."""


def check_files(settings: Settings) -> None:
    """Raises `UnusableTls`."""
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
    """Whether the certificate is for the address that runners are told. Raises `UnusableTls`."""
    if not (settings.tls_cert and settings.tls_key and settings.trusted_ca):
        return
    host = httpx.URL(url).host
    fault = fault_of_certificate(settings.tls_cert, settings.tls_key, settings.trusted_ca, host)
    if fault is None:
        return
    if settings.advertise:  # somebody else, a proxy, may be there
        _log.warning("certificate does not fit", url=url, fault=fault)
        return
    raise UnusableTls(
        f"runners would not believe the server at {url}: {fault}; name the address that the "
        "certificate is for with --advertise https://NAME:PORT, and with --ca who issued it"
    )
