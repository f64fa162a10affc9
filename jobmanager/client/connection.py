"""Sends requests to a server, again where that is safe, and turns refusals into errors.

`Connection` waits for answers, `AsyncConnection` awaits them. What both decide is in `retries`.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, Self, cast

import httpx

from jobmanager.client import contexts, credentials
from jobmanager.client.api_call import Answer, AnswerForm, ApiCall
from jobmanager.client.errors import HeadgateError, ServerUnreachable, refusal_of
from jobmanager.client.known_answers import KnownAnswers
from jobmanager.client.retries import RetryPolicy
from jobmanager.client.server_events import EventReader, ServerEvent, following
from jobmanager.core.access.exposure import is_loopback

_STREAM_PAUSE = 1.0
"""Seconds before a broken stream of events is asked for again."""


def http_settings(
    url: str,
    timeout: float,
    token: str | None,
    ca: Path | None,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the settings of an HTTP client for the server at `url`, with token and certificates.
    An empty `token` means that no token is sent; None: that of the environment.
    """
    try:
        here = is_loopback(httpx.URL(url).host)
    except httpx.InvalidURL as error:
        raise HeadgateError(f"{url!r} is not the URL of a server: {error}") from error
    chosen = credentials.environment() if environment is None else environment
    shown = credentials.token_for(url, chosen) if token is None else token
    return {
        "timeout": timeout,
        # Proxy settings of the environment do not apply to a server on this machine.
        "trust_env": not here,
        "verify": credentials.verification(ca, chosen) if url.startswith("https:") else True,
        "headers": {"Authorization": f"Bearer {shown}"} if shown else {},
    }


class _Settings:
    """What both connections are made of."""

    def __init__(
        self,
        url: str | None = None,
        *,
        context: str | None = None,
        timeout: float = 30.0,
        token: str | None = None,
        ca: Path | None = None,
        retries: int = RetryPolicy.retries,
    ) -> None:
        """Without `url` or `context`, the server is that of HEADGATE_URL, or the current context of
        ~/.config/headgate/config.toml, or http://127.0.0.1:8081.
        """
        chosen = contexts.choose(url, context, credentials.environment())
        self.url = chosen.url.rstrip("/")
        self._policy = RetryPolicy(retries)
        self._known = KnownAnswers()
        self._settings = http_settings(self.url, timeout, token, ca, chosen.environment)

    def _request(self, call: ApiCall[Any]) -> dict[str, Any]:
        named: dict[str, Any] = {
            "method": call.method,
            "url": f"{self.url}{call.path}",
            "params": dict(call.params),
            "headers": {**self._known.headers(call), **call.headers},
        }
        if call.json is not None:
            named["json"] = call.json
        if call.content is not None:
            named["content"] = call.content
        if call.files is not None:
            named["files"] = dict(call.files)
        if call.timeout is not None:
            named["timeout"] = call.timeout
        return named

    def _answer(self, call: ApiCall[Answer], response: httpx.Response) -> Answer:
        if response.is_error:
            raise refusal_of(response)
        if call.form is AnswerForm.TEXT:
            return cast(Answer, response.text)
        if call.form is AnswerForm.BYTES:
            return cast(Answer, response.content)
        content = self._known.content(call, response)
        return cast(Answer, json.loads(content) if content else {})


class Connection(_Settings):
    """A connection that is used by one thread after the other."""

    def __init__(self, url: str | None = None, **settings: Any) -> None:
        super().__init__(url, **settings)
        self._http = httpx.Client(**self._settings)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def run(self, call: ApiCall[Answer]) -> Answer:
        """Send the request and return the answer. Raises `HeadgateError`."""
        repetition = 0
        while True:
            outcome = self._once(call)
            pause = self._policy.pause(call, repetition, outcome)
            if pause is None:
                if isinstance(outcome, httpx.TransportError):
                    raise ServerUnreachable(self.url, outcome) from outcome
                return self._answer(call, outcome)
            time.sleep(pause)
            repetition += 1

    def events(self, call: ApiCall[ServerEvent]) -> Iterator[ServerEvent]:
        """Yield events for as long as the caller asks for more."""
        reader = EventReader()
        failures = 0
        while True:
            try:
                for line in self.lines(following(call, reader.last_id)):
                    failures = 0
                    event = reader.feed(line)
                    if event is not None:
                        yield event
            except ServerUnreachable:
                failures += 1
                if failures > self._policy.retries:
                    raise
            time.sleep(_STREAM_PAUSE)

    def lines(self, call: ApiCall[Any]) -> Iterator[str]:
        """Yield the lines of an answer that may be silent for any time."""
        request = {**self._request(call), "timeout": httpx.Timeout(30.0, read=None)}
        try:
            with self._http.stream(**request) as response:
                if response.is_error:
                    response.read()
                    raise refusal_of(response)
                yield from response.iter_lines()
        except httpx.TransportError as error:
            raise ServerUnreachable(self.url, error) from error

    def _once(self, call: ApiCall[Any]) -> httpx.Response | httpx.TransportError:
        try:
            return self._http.request(**self._request(call))
        except httpx.TransportError as error:
            return error


class AsyncConnection(_Settings):
    """The same for `asyncio`."""

    def __init__(self, url: str | None = None, **settings: Any) -> None:
        super().__init__(url, **settings)
        self._http = httpx.AsyncClient(**self._settings)

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def run(self, call: ApiCall[Answer]) -> Answer:
        """Send the request and return the answer. Raises `HeadgateError`."""
        repetition = 0
        while True:
            outcome = await self._once(call)
            pause = self._policy.pause(call, repetition, outcome)
            if pause is None:
                if isinstance(outcome, httpx.TransportError):
                    raise ServerUnreachable(self.url, outcome) from outcome
                return self._answer(call, outcome)
            await asyncio.sleep(pause)
            repetition += 1

    async def events(self, call: ApiCall[ServerEvent]) -> AsyncIterator[ServerEvent]:
        """Yield events for as long as the caller asks for more."""
        reader = EventReader()
        failures = 0
        while True:
            try:
                async for line in self.lines(following(call, reader.last_id)):
                    failures = 0
                    event = reader.feed(line)
                    if event is not None:
                        yield event
            except ServerUnreachable:
                failures += 1
                if failures > self._policy.retries:
                    raise
            await asyncio.sleep(_STREAM_PAUSE)

    async def lines(self, call: ApiCall[Any]) -> AsyncIterator[str]:
        """Yield the lines of an answer that may be silent for any time."""
        request = {**self._request(call), "timeout": httpx.Timeout(30.0, read=None)}
        try:
            async with self._http.stream(**request) as response:
                if response.is_error:
                    await response.aread()
                    raise refusal_of(response)
                async for line in response.aiter_lines():
                    yield line
        except httpx.TransportError as error:
            raise ServerUnreachable(self.url, error) from error

    async def _once(self, call: ApiCall[Any]) -> httpx.Response | httpx.TransportError:
        try:
            return await self._http.request(**self._request(call))
        except httpx.TransportError as error:
            return error
