"""The client's token, and the certificates it trusts, from environment variables.

    HEADGATE_TOKEN           the token
    HEADGATE_TOKEN_COMMAND   a shell command that prints the token
    HEADGATE_CA              a PEM file of certificates that https:// servers are verified with
    HEADGATE_TOKEN_OVER_HTTP 1: send the token over plain HTTP to other machines, too

There is no option for a token, because other users of a machine can read command lines.
"""

import os
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from urllib.parse import urlsplit

from jobmanager.client.errors import HeadgateError
from jobmanager.core.access.exposure import is_loopback
from jobmanager.protocol.tls_trust import trust_in

_COMMAND_WITHIN = 60.0
_chosen_ca: ContextVar[Path | None] = ContextVar("chosen_ca", default=None)
_environment: ContextVar[Mapping[str, str]] = ContextVar("environment", default=os.environ)


@contextmanager
def trusting(ca: Path | None) -> Iterator[None]:
    """Let clients that are created in this context trust this file; None: that of HEADGATE_CA."""
    before = _chosen_ca.set(ca)
    try:
        yield
    finally:
        _chosen_ca.reset(before)


@contextmanager
def using(environment: Mapping[str, str]) -> Iterator[None]:
    """Let clients that are created in this context take token and certificates from here: the
    process's environment together with what a context of the user says.
    """
    before = _environment.set(environment)
    try:
        yield
    finally:
        _environment.reset(before)


def environment() -> Mapping[str, str]:
    """Return the variables that clients take token and certificates from."""
    return _environment.get()


def token_for(url: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the token for the server at `url`; None: no variable names a token. Raises
    `HeadgateError` if the token would be sent unencrypted over the network.
    """
    token = environment.get("HEADGATE_TOKEN", "").strip() or _printed_token(environment)
    if token is None:
        return None
    if not token.isascii() or not token.isprintable() or " " in token:
        raise HeadgateError(
            "the token in HEADGATE_TOKEN or from HEADGATE_TOKEN_COMMAND is not valid: a token is "
            "one word of ASCII characters"
        )
    parts = urlsplit(url)
    is_safe = parts.scheme == "https" or is_loopback(parts.hostname or "")
    if not is_safe and environment.get("HEADGATE_TOKEN_OVER_HTTP") != "1":
        raise HeadgateError(
            f"the token would be sent unencrypted to {url}: use https:// (headgate serve "
            "--tls-cert), or set HEADGATE_TOKEN_OVER_HTTP=1 if the network is trusted"
        )
    return token


def verification(
    ca: Path | None = None, environment: Mapping[str, str] = os.environ
) -> ssl.SSLContext:
    """Return the TLS settings that verify servers. Raises `HeadgateError`."""
    named = environment.get("HEADGATE_CA")
    file = ca or _chosen_ca.get() or (Path(named) if named else None)
    try:
        return trust_in(file)
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "strerror", None) or error
        raise HeadgateError(
            f"the certificates in {file} cannot be used (--ca, HEADGATE_CA): {reason}"
        ) from error


def _printed_token(environment: Mapping[str, str]) -> str | None:
    command = environment.get("HEADGATE_TOKEN_COMMAND", "").strip()
    if not command:
        return None
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            stdout=subprocess.PIPE,
            text=True,
            timeout=_COMMAND_WITHIN,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as error:
        raise HeadgateError(f"HEADGATE_TOKEN_COMMAND failed: {type(error).__name__}") from error
    token = done.stdout.strip()
    if done.returncode != 0 or not token:
        raise HeadgateError(
            f"HEADGATE_TOKEN_COMMAND printed no token: it ended with code {done.returncode}"
        )
    return token
