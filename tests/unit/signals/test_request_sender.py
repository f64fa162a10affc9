"""Requests of webhooks over TLS, to the very address that was judged."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from jobmanager.core.signals.delivery import Answered, NotSent
from jobmanager.core.signals.target_address import address_rules
from jobmanager.services.ports.signals import OutgoingRequest
from jobmanager.signals.request_sender import HttpRequestSender
from tests.support.certificates import Authority, Issued

pytestmark = pytest.mark.anyio
ANY = address_rules((), takes_any=True)
STRICT = address_rules((), takes_any=False)


@asynccontextmanager
async def a_receiver(
    issued: Issued | None, answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that speaks TLS if it has a certificate; its port, and the heads of requests."""
    heads: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        await writer.drain()
        writer.close()

    context = None
    if issued is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(issued.certificate, issued.key)
    server = await asyncio.start_server(take, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1], heads


def a_request(url: str, rules: Any = ANY) -> OutgoingRequest:
    return OutgoingRequest(url, b"{}", {"Content-Type": "application/json"}, rules)


async def test_a_certificate_is_that_of_the_name_and_not_of_the_address(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with (
        a_receiver(authority.issue("localhost")) as (port, heads),
        HttpRequestSender(authority.certificate) as trusting,
        HttpRequestSender() as strange,
    ):
        taken = await trusting.send(a_request(f"https://localhost:{port}/x?y=1"))
        by_address = await trusting.send(a_request(f"https://127.0.0.1:{port}/x"))
        not_trusted = await strange.send(a_request(f"https://localhost:{port}/x"))

    assert isinstance(taken, Answered)
    assert (taken.status, taken.text) == (200, "ok")
    assert heads[0].startswith(b"POST /x?y=1 HTTP/1.1\r\n")
    assert f"host: localhost:{port}".encode() in heads[0].lower()
    assert isinstance(by_address, NotSent)
    assert isinstance(not_trusted, NotSent)
    assert "the certificate is not trusted" in by_address.why
    assert "the certificate is not trusted" in not_trusted.why
    assert len(heads) == 1


async def test_a_name_is_looked_up_once_and_the_judged_address_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The name of an attacker has a public address when it is judged, and loopback after that."""
    loop, answers = asyncio.get_running_loop(), ["93.184.216.34", "127.0.0.1"]
    asked: list[str] = []
    real = loop.getaddrinfo

    async def rebinding(host: Any, port: Any, **more: Any) -> Any:
        if host != "hooks.example.com":
            return await real(host, port, **more)
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answers.pop(0), port))]

    monkeypatch.setattr(loop, "getaddrinfo", rebinding)
    async with a_receiver(None) as (port, heads), HttpRequestSender(within=0.3) as sender:
        url = f"http://hooks.example.com:{port}/x"
        first = await sender.send(a_request(url, STRICT))
        second = await sender.send(a_request(url, STRICT))

    assert isinstance(first, NotSent)
    assert isinstance(second, NotSent)
    assert "loopback" in second.why
    assert heads == []
    assert asked == ["hooks.example.com"] * 2  # once a request


async def test_an_answer_is_read_to_a_limit_and_a_redirect_is_not_followed() -> None:
    endless = b"HTTP/1.1 302 Found\r\nLocation: /y\r\nRetry-After: 7\r\n\r\n" + b"x" * 100_000
    async with a_receiver(None, endless) as (port, heads), HttpRequestSender() as sender:
        found = await sender.send(a_request(f"http://127.0.0.1:{port}/x"))

    assert isinstance(found, Answered)
    assert (found.status, len(found.text), len(heads)) == (302, 1024, 1)
    assert found.retry_after is not None
    assert found.retry_after.total_seconds() == 7


async def test_what_has_no_address_or_no_server_is_said_without_the_path() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    async with HttpRequestSender(within=5) as sender:
        refused = await sender.send(a_request(f"http://127.0.0.1:{port}/secret-path"))
        unusable = await sender.send(a_request("nonsense/secret-path"))
        fault = await sender.fault(f"http://127.0.0.1:{port}/secret-path", STRICT)

    assert isinstance(refused, NotSent)
    assert isinstance(unusable, NotSent)
    assert unusable.is_final
    assert not refused.is_final
    assert "secret-path" not in f"{refused.why}{unusable.why}{fault}"
    assert fault is not None
    assert str(ip_address("127.0.0.1")) in fault
