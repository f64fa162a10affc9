"""Sends the requests of webhooks and lineage events.

A request goes to the very address that was judged: the host's name is looked up once, all its
addresses are judged, and the connection is made to one of them, with the name in the Host header
and, for TLS, as the name of the certificate. Redirects and the proxies of the environment are not
used, since both would lead elsewhere.
"""

import asyncio
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import httpx

from jobmanager.core.signals.delivery import Answered, NotSent, SendOutcome
from jobmanager.core.signals.target_address import (
    AddressRules,
    IpAddress,
    TargetUrl,
    UnusableTarget,
    literal_address,
    parse_target,
)
from jobmanager.services.ports.signals import OutgoingRequest

_CONNECT_WITHIN = 5.0
_ANSWER_WITHIN = 10.0
"""Of the whole request, whatever the target does."""
_MOST_OF_AN_ANSWER = 1024
_MOST_REQUESTS = 16


class HttpRequestSender:
    """Use it as a context manager."""

    def __init__(self, ca: Path | None = None, within: float = _ANSWER_WITHIN) -> None:
        """`ca`: certificates that are trusted beside those that the machine trusts."""
        self._within = within
        trusted = ssl.create_default_context()
        if ca is not None:
            trusted.load_verify_locations(ca)
        self._http = httpx.AsyncClient(
            timeout=httpx.Timeout(within, connect=_CONNECT_WITHIN),
            # A kept connection would be found by the address: its certificate may be another's.
            limits=httpx.Limits(max_connections=_MOST_REQUESTS, max_keepalive_connections=0),
            verify=trusted,
            trust_env=False,
            follow_redirects=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._http.aclose()

    async def send(self, request: OutgoingRequest) -> SendOutcome:
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._within):
                return await self._send(request, began)
        except TimeoutError:
            why = f"no answer within {self._within:g} seconds"
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            why = _described(error)
        except Exception as error:  # whatever a target makes the libraries do, the loop goes on
            why = type(error).__name__
        return NotSent(why, _since(began))

    async def fault(self, url: str, rules: AddressRules) -> str | None:
        target = parse_target(url)
        try:
            async with asyncio.timeout(_CONNECT_WITHIN):
                addresses = await _addresses(target)
        except (OSError, TimeoutError):
            return None
        return rules.fault(target, addresses)

    async def _send(self, request: OutgoingRequest, began: float) -> SendOutcome:
        try:
            target = parse_target(request.url)
        except UnusableTarget as error:
            return NotSent(str(error), is_final=True)
        try:
            addresses = await _addresses(target)
        except OSError as error:
            return NotSent(f"{target.host} has no address: {error.strerror}", _since(began))
        if request.rules is not None and (why := request.rules.fault(target, addresses)):
            return NotSent(why, _since(began))
        async with self._http.stream(
            "POST",
            _at(target, addresses[0]),
            content=request.body,
            headers={**request.headers, "Host": urlsplit(target.origin).netloc},
            extensions={"sni_hostname": target.host},
        ) as answer:
            text = await _beginning(answer)
            retry_after = _retry_after(answer.headers)
            return Answered(answer.status_code, text, _since(began), retry_after)


async def _addresses(target: TargetUrl) -> Sequence[IpAddress]:
    """Return all addresses of the host. Raises OSError."""
    literal = literal_address(target.host)
    if literal is not None:
        return [literal]
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    texts = dict.fromkeys(str(where[0]).partition("%")[0] for *_, where in found)
    return [ip_address(one) for one in texts]


def _at(target: TargetUrl, address: IpAddress) -> httpx.URL:
    host = f"[{address}]" if address.version == 6 else str(address)
    return httpx.URL(f"{target.scheme}://{host}:{target.port}{target.path or '/'}")


async def _beginning(answer: httpx.Response) -> str:
    read = b""
    async for chunk in answer.aiter_bytes():
        read += chunk
        if len(read) >= _MOST_OF_AN_ANSWER:
            break
    # Postgres and JSON take no NUL
    return read[:_MOST_OF_AN_ANSWER].decode(errors="replace").replace("\0", "")


def _retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """In seconds; a date is not understood."""
    text = headers.get("retry-after", "")
    is_number = text.isascii() and text.isdigit() and len(text) < 8
    return timedelta(seconds=int(text)) if is_number else None


def _described(error: Exception) -> str:
    """Say what happened, without the URL."""
    cause: BaseException = error
    while cause.__cause__ is not None or cause.__context__ is not None:
        cause = cause.__cause__ or cause.__context__ or cause
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"the certificate is not trusted: {cause.verify_message}"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    match error:
        case httpx.ConnectTimeout():
            return f"no connection within {_CONNECT_WITHIN:g} seconds"
        case httpx.TimeoutException():
            return "no answer in time"
        case httpx.RemoteProtocolError():
            return "the connection was closed without an answer"
        case _:
            return type(error).__name__


def _since(began: float) -> timedelta:
    return timedelta(seconds=time.monotonic() - began)
