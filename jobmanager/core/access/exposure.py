"""Whether a server needs tokens, decided from its address and its settings."""

import ipaddress
from dataclasses import dataclass


class ConflictingExposure(ValueError):
    """Two settings contradict each other; the message names them."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """Whether callers of a server need a token."""

    needs_tokens: bool
    why: str
    """The reason, for the line that the server prints when it starts."""


def exposure_of(
    host: str,
    *,
    require_tokens: bool,
    insecure: bool,
    advertised_host: str | None = None,
    trusts_proxies: bool = False,
) -> Exposure:
    """Decide whether a server needs tokens. On loopback it does if `require_tokens` is set; on any
    other address it does unless `insecure` is set.

    A server on loopback that is advertised under another address, or that trusts a proxy, can be
    reached from other machines. Raises `ConflictingExposure`.
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
            f"NO TOKENS ARE NEEDED (--insecure) although {elsewhere}: everybody who "
            "reaches this server is admin",
        )
    return Exposure(True, f"tokens are needed: {elsewhere}")


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address. A name other than localhost counts
    as reachable from elsewhere.
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
