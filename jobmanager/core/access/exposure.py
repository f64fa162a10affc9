"""Whether a server needs tokens: what follows from where it listens and what it was told."""

import ipaddress
from dataclasses import dataclass


class ConflictingExposure(ValueError):
    """The settings say two things; the message says which."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """Who can reach a server, and whether the caller has to have a token."""

    needs_tokens: bool
    why: str
    """For the line that a server says when it starts."""


def exposure_of(
    host: str,
    *,
    require_tokens: bool,
    insecure: bool,
    advertised_host: str | None = None,
    trusts_proxies: bool = False,
) -> Exposure:
    """On loopback tokens are not needed unless asked for; elsewhere they are, unless refused.

    A server on loopback that is known by another address, or that trusts a proxy, is reached
    from elsewhere. Raises `ConflictingExposure`.
    """
    if require_tokens and insecure:
        raise ConflictingExposure(
            "--require-tokens and --insecure exclude each other: leave one of them out"
        )
    if require_tokens:
        return Exposure(True, "tokens are needed (--require-tokens)")
    elsewhere = reached_from_elsewhere(host, advertised_host, trusts_proxies)
    if elsewhere is None:
        return Exposure(False, "no tokens are needed on this machine: everybody is admin")
    if insecure:
        return Exposure(
            False,
            f"NO TOKENS ARE NEEDED (--insecure) though {elsewhere}: everybody who "
            "reaches this server is admin",
        )
    return Exposure(True, f"tokens are needed: {elsewhere}")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address. A name other than localhost may be
    anybody's.
    """
    if host.lower().removesuffix(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def reached_from_elsewhere(
    host: str, advertised_host: str | None, trusts_proxies: bool
) -> str | None:
    """How other machines reach the server; None: only this machine does."""
    if not is_loopback(host):
        return f"the server listens on {host}"
    if trusts_proxies:
        return "the server is behind a proxy (--trusted-proxy)"
    if advertised_host is not None and not is_loopback(advertised_host):
        return f"the server is advertised as {advertised_host}"
    return None
