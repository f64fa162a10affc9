"""Which addresses a webhook may have.

Whoever may create webhooks makes the server send requests. Without a rule they would go to services
that only the server's machine or network reaches: a database's HTTP port, the metadata of a cloud
machine. So a webhook's host has to have public addresses only, unless the server was told the
place (`--allow-path https://hooks.internal:8443`). A server that only its own machine reaches, and
that was told no places, also takes loopback and private addresses, as it takes any path.

The rule is asked twice: when a webhook is created, and for the addresses that its host has at each
try. The request goes to the very address that was judged.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from jobmanager.core import secret_references
from jobmanager.core.paths.location import Location, UnclearLocation, location_of

IpAddress = IPv4Address | IPv6Address
_PORTS = {"http": 80, "https": 443}
_LONGEST = 2048
_TRANSLATED = IPv6Network("64:ff9b::/96")
"""IPv6 addresses that lead to the IPv4 address in their last 32 bits."""


class UnusableTarget(ValueError):
    """The URL of a webhook cannot be used; the message says why, and shows nothing behind its
    host.
    """


@dataclass(frozen=True, slots=True)
class TargetUrl:
    """The parts of a webhook's URL."""

    scheme: str
    host: str
    port: int
    path: str
    """With the query."""

    @property
    def origin(self) -> str:
        shown = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{shown}{port}"

    @property
    def shown(self) -> str:
        """The URL for users: what is behind the host is often a password."""
        return self.origin if self.path in ("", "/") else f"{self.origin}/…"


def parse_target(url: str) -> TargetUrl:
    """Read the URL of a webhook. Raises `UnusableTarget`."""
    if len(url) > _LONGEST or any(ord(c) <= 32 or ord(c) == 127 for c in url):
        raise UnusableTarget(
            f"the URL has more than {_LONGEST} characters, or a space or control character"
        )
    if secret_references.has_reference(url.partition("://")[2].partition("/")[0]):
        raise UnusableTarget("a secret can be in the path of the URL, not in its host")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise UnusableTarget("the URL cannot be read: write https://host/path") from None
    if parts.scheme not in _PORTS or not host:
        raise UnusableTarget("the URL has to begin with https:// or http:// and a host")
    if parts.username is not None or parts.password is not None:
        raise UnusableTarget(
            "the URL has a user or a password before its host: put it into a secret, and the "
            "secret into the path (${secret:name}), or check the signature instead"
        )
    if fault := secret_references.fault(url):
        raise UnusableTarget(fault)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    return TargetUrl(parts.scheme, host.lower(), port or _PORTS[parts.scheme], path)


@dataclass(frozen=True, slots=True)
class AddressRules:
    """The rules of a server."""

    takes_any: bool = False
    """Whether loopback and private addresses are taken: only its own machine reaches the server,
    and it was told no places.
    """
    places: tuple[Location, ...] = ()
    """What the server was told, of the schemes http and https."""

    def fault(self, url: TargetUrl, addresses: Iterable[IpAddress]) -> str | None:
        """Return why a request may not go to this host with these addresses; None: it may."""
        if any(_contains(place, url) for place in self.places):
            return None
        for address in addresses:
            what = _kind(address)
            if what is None or (self.takes_any and what != _LINK_LOCAL):
                continue
            return (
                f"{url.host} has the {what} address {address}, and a webhook may have public "
                f"addresses only: start the server with --allow-path {url.origin} to allow it"
            )
        return None


def address_rules(allowed: Sequence[str], *, takes_any: bool) -> AddressRules:
    """Return the rules of a server that was told these places (`--allow-path`)."""
    places: list[Location] = []
    for one in allowed:
        try:
            place = location_of(one, "/")
        except UnclearLocation:
            continue  # the settings have refused it
        if place.scheme in _PORTS:
            places.append(place)
    return AddressRules(takes_any and not allowed, tuple(places))


def literal_address(host: str) -> IpAddress | None:
    """Return the address that a host is, if it is not a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


_LINK_LOCAL = "link-local"


def _kind(address: IpAddress) -> str | None:
    """Return what is not public about an address; None: it is public."""
    if (inner := _inside(address)) is not None:
        return _kind(inner)
    if address.is_loopback:
        return "loopback"
    if address.is_link_local:
        return _LINK_LOCAL
    if address.is_multicast or address.is_reserved or address.is_unspecified:
        return "reserved"
    return None if address.is_global else "private"


def _inside(address: IpAddress) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address leads to."""
    if not isinstance(address, IPv6Address):
        return None
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]


def _contains(place: Location, url: TargetUrl) -> bool:
    """Return whether the server was told a place that the URL is at or below."""
    try:
        named = parse_target(f"{place.scheme}://{place.authority}")
        if (named.scheme, named.host, named.port) != (url.scheme, url.host, url.port):
            return False
        if place.path == PurePosixPath("/"):
            return True
        path = location_of(f"{url.origin}{url.path.partition('?')[0] or '/'}", "/").path
    except (UnusableTarget, UnclearLocation):
        return False
    return path.is_relative_to(place.path)
