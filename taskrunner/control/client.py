"""The runner's client of the JobManager. Every call may be repeated, so every call is retried."""

import random
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from threading import Event, Lock
from types import TracebackType
from typing import TypeVar

import httpx
from pydantic import ValidationError

from jobmanager.core.ids import RunnerId
from jobmanager.core.json_text import storable
from jobmanager.protocol.messages import (
    ATTEMPT_TOKEN,
    PROTOCOL_HEADER,
    PROTOCOL_VERSION,
    AttemptReply,
    AttemptReport,
    BarrierAcks,
    BarrierDecline,
    BarrierReply,
    Directives,
    Heartbeat,
    HeartbeatReply,
    Message,
    RunnerHello,
    RunnerWelcome,
)
from jobmanager.protocol.tls_trust import trust_in
from jobmanager.protocol.versions import version_in, written_for
from taskrunner.control.address import AddressFile

_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 2.0
_TIMEOUT_SECONDS = 6.0
"""Not much longer than a lease: a leader that does not answer soon loses its lease."""
PROBLEM = "application/problem+json"
_DISMISSALS = frozenset([401, 403, 404, 410])

Reply = TypeVar("Reply", bound=Message)


class NotDelivered(Exception):
    """No JobManager could be reached in time."""


class RunnerDismissed(Exception):
    """The JobManager does not know this runner, or not with this secret."""


class CallRefused(Exception):
    """The JobManager refused the call: trying again would not help."""


class JobManagerClient:
    """Calls the JobManager until it answers. Threads may share it."""

    def __init__(
        self, runner: RunnerId, addresses: AddressFile, secret: str, ca: Path | None = None
    ) -> None:
        """`ca` is a file of trusted certificates; None: those that the machine trusts."""
        self._path = f"/v1/runners/{runner}"
        self._addresses = addresses
        self._secret = secret
        self._ca = ca
        self._trusting = Lock()
        self._trusted_since = 0
        self._http = self._connections()
        self._closed = Event()
        self._tokens: dict[int, str] = {}
        """Of the attempts of this runner."""
        self._server_version = PROTOCOL_VERSION
        """The protocol version of the JobManager that answered last."""

    def __enter__(self) -> "JobManagerClient":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends all calls: calls that wait for another try raise `NotDelivered`."""
        self._closed.set()
        self._http.close()

    def learn_token(self, attempt: int, token: str) -> None:
        """What is said of the attempt from now on carries its token."""
        self._tokens[attempt] = token

    def register(self, hello: RunnerHello) -> RunnerWelcome:
        welcome = self._call("POST", "/register", hello, RunnerWelcome)
        self._addresses.learn(welcome.urls)
        return welcome

    def directives(self, after: int, wait_ms: int) -> Directives:
        """The directives after number `after`; empty if none came in `wait_ms`."""
        path = f"/directives?after={after}&wait_ms={wait_ms}"
        return self._call("GET", path, None, Directives, patience=wait_ms / 1000)

    def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatReply:
        """Sends a heartbeat, with one try only: the next heartbeat has newer data."""
        reply = self._call(
            "POST",
            "/heartbeat",
            heartbeat,
            HeartbeatReply,
            within=timedelta(0),
            attempt=heartbeat.attempt,
        )
        self._addresses.learn(reply.urls)
        return reply

    def ack(self, acks: BarrierAcks, within: timedelta) -> BarrierReply:
        return self._call("POST", "/acks", acks, BarrierReply, within=within, attempt=acks.attempt)

    def decline(self, declined: BarrierDecline, within: timedelta) -> BarrierReply:
        return self._call(
            "POST", "/declines", declined, BarrierReply, within=within, attempt=declined.attempt
        )

    def report(self, report: AttemptReport, within: timedelta) -> AttemptReply:
        return self._call(
            "POST", "/attempt", report, AttemptReply, within=within, attempt=report.attempt
        )

    def _call(
        self,
        method: str,
        path: str,
        body: Message | None,
        reply: type[Reply],
        within: timedelta | None = None,
        patience: float = 0.0,
        attempt: int | None = None,
    ) -> Reply:
        """Calls until there is an answer; None: for ever. `patience` is the timeout of one try,
        `attempt` the attempt that the message is about. A call that an older JobManager refused
        is repeated in the form of its version.
        """
        deadline = None if within is None else time.monotonic() + within.total_seconds()
        headers = {} if body is None else {"Content-Type": "application/json"}
        if attempt is not None and attempt in self._tokens:
            headers[ATTEMPT_TOKEN] = self._tokens[attempt]
        pause = _FIRST_PAUSE
        while True:
            url, version = None, self._server_version
            content = None if body is None else storable(written_for(version, body))
            try:
                url = self._address()
                url_of_call = url + self._path + path
                return self._once(method, url_of_call, content, headers, reply, patience)
            except CallRefused:
                if self._server_version >= version:
                    raise
            except NotDelivered:
                self._addresses.failed(url)
                is_over = deadline is not None and time.monotonic() + pause > deadline
                if is_over or self._closed.wait(pause * random.uniform(0.8, 1.2)):
                    raise
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _address(self) -> str:
        try:
            return self._addresses.current()
        except (OSError, ValueError) as error:
            raise NotDelivered(f"{type(error).__name__}: {error}") from error

    def _once(
        self,
        method: str,
        url: str,
        content: str | None,
        headers: Mapping[str, str],
        reply: type[Reply],
        patience: float,
    ) -> Reply:
        if self._closed.is_set():
            raise NotDelivered("this runner is ending")
        try:
            response = self._http.request(
                method,
                url,
                content=content,
                headers=headers,
                timeout=httpx.Timeout(_TIMEOUT_SECONDS, read=_TIMEOUT_SECONDS + patience),
            )
        except (httpx.HTTPError, OSError, ValueError, RuntimeError) as error:
            # RuntimeError: the client was closed by another thread
            self._trust_again(error)
            raise NotDelivered(f"{type(error).__name__}: {error}") from error
        if response.is_success or _is_from_a_jobmanager(response):
            self._server_version = version_in(response.headers.get(PROTOCOL_HEADER))
        return _reply(response, reply)

    def _connections(self) -> httpx.Client:
        if self._ca is not None:
            self._trusted_since = self._ca.stat().st_mtime_ns
        return httpx.Client(
            headers={
                "Authorization": f"Bearer {self._secret}",
                PROTOCOL_HEADER: str(PROTOCOL_VERSION),
            },
            timeout=_TIMEOUT_SECONDS,
            trust_env=False,
            verify=trust_in(self._ca),
        )

    def _trust_again(self, error: Exception) -> None:
        """Read the trusted certificates again if verification failed and the file has changed: the
        JobManager may have restarted with a renewed certificate.
        """
        if self._ca is None or "CERTIFICATE_VERIFY_FAILED" not in str(error):
            return
        with suppress(OSError, ValueError), self._trusting:  # the file may be incomplete
            if self._ca.stat().st_mtime_ns == self._trusted_since or self._closed.is_set():
                return
            old, self._http = self._http, self._connections()
            old.close()


def _is_from_a_jobmanager(response: httpx.Response) -> bool:
    """Whether a refusal comes from a JobManager. While no server runs, any program may listen on
    its port, and its 404 must not end a job.
    """
    return str(response.headers.get("Content-Type", "")).startswith(PROBLEM)


def _reply(response: httpx.Response, reply: type[Reply]) -> Reply:
    status = response.status_code
    if status in _DISMISSALS and _is_from_a_jobmanager(response):
        raise RunnerDismissed(f"{response.request.url}: {status} {response.text[:300]}")
    if status >= 500 or status == 429 or status in _DISMISSALS:
        raise NotDelivered(f"{response.request.url}: {status}")
    if status >= 400:
        raise CallRefused(f"{response.request.url}: {status} {response.text[:1000]}")
    try:
        return reply.received(response.content)
    except ValidationError as error:
        # without the values, because a token may be one of them
        faults = "; ".join(
            f"{'.'.join(map(str, one['loc']))}: {one['msg']}"
            for one in error.errors(include_input=False, include_url=False)
        )
        raise CallRefused(f"{response.request.url}: the answer cannot be read: {faults}") from None
