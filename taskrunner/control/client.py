"""The runner's client of the JobManager. Every call may be repeated, so every call is retried."""

import random
import time
from datetime import timedelta
from threading import Event
from types import TracebackType
from typing import TypeVar

import httpx
from pydantic import ValidationError

from jobmanager.core.ids import RunnerId
from jobmanager.core.json_text import without_nul
from jobmanager.protocol.messages import (
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
    """The JobManager does not know this runner, or not with this token."""


class CallRefused(Exception):
    """The JobManager refused the call: trying again would not help."""


class JobManagerClient:
    """Calls the JobManager until it answers. Threads may share it."""

    def __init__(self, runner: RunnerId, addresses: AddressFile, token: str) -> None:
        self._path = f"/v1/runners/{runner}"
        self._addresses = addresses
        self._http = httpx.Client(
            headers={
                "Authorization": f"Bearer {token}",
                PROTOCOL_HEADER: str(PROTOCOL_VERSION),
            },
            timeout=_TIMEOUT_SECONDS,
            trust_env=False,
        )
        self._closed = Event()
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
        reply = self._call("POST", "/heartbeat", heartbeat, HeartbeatReply, within=timedelta(0))
        self._addresses.learn(reply.urls)
        return reply

    def ack(self, acks: BarrierAcks, within: timedelta) -> BarrierReply:
        return self._call("POST", "/acks", acks, BarrierReply, within=within)

    def decline(self, declined: BarrierDecline, within: timedelta) -> BarrierReply:
        return self._call("POST", "/declines", declined, BarrierReply, within=within)

    def report(self, report: AttemptReport, within: timedelta) -> AttemptReply:
        return self._call("POST", "/attempt", report, AttemptReply, within=within)

    def _call(
        self,
        method: str,
        path: str,
        body: Message | None,
        reply: type[Reply],
        within: timedelta | None = None,
        patience: float = 0.0,
    ) -> Reply:
        """Calls until there is an answer; None: for ever. `patience` is the timeout of one try. A
        call that an older JobManager refused is repeated in the form of its version.
        """
        deadline = None if within is None else time.monotonic() + within.total_seconds()
        pause = _FIRST_PAUSE
        while True:
            url, version = None, self._server_version
            content = None if body is None else without_nul(written_for(version, body))
            try:
                url = self._address()
                return self._once(method, url + self._path + path, content, reply, patience)
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
        self, method: str, url: str, content: str | None, reply: type[Reply], patience: float
    ) -> Reply:
        if self._closed.is_set():
            raise NotDelivered("this runner is ending")
        try:
            response = self._http.request(
                method,
                url,
                content=content,
                headers={"Content-Type": "application/json"} if content else None,
                timeout=httpx.Timeout(_TIMEOUT_SECONDS, read=_TIMEOUT_SECONDS + patience),
            )
        except (httpx.HTTPError, OSError, ValueError, RuntimeError) as error:
            # RuntimeError: the client was closed by another thread
            raise NotDelivered(f"{type(error).__name__}: {error}") from error
        if response.is_success or _is_from_a_jobmanager(response):
            self._server_version = version_in(response.headers.get(PROTOCOL_HEADER))
        return _reply(response, reply)


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
        raise CallRefused(f"{response.request.url}: the answer cannot be read: {error}") from error
