"""The two threads that keep in touch: one asks for directives, one says "alive"."""

import time
from collections.abc import Callable
from threading import Event, Thread

from jobmanager.protocol.messages import Directive, Heartbeat
from taskrunner import logs
from taskrunner.control.client import (
    CallRefused,
    JobManagerClient,
    NotDelivered,
    RunnerDismissed,
)
from taskrunner.core.orders import Dismissed, Order, Replaced

_PAUSE_AFTER_REFUSAL = 5.0
log = logs.get("control")


class DirectivePoller(Thread):
    """Fetches directives, in order and each once, until the client is closed."""

    def __init__(
        self,
        client: JobManagerClient,
        wait_ms: int,
        take: Callable[[Directive], None],
        order: Callable[[Order], None],
    ) -> None:
        super().__init__(name="directives", daemon=True)
        self._client = client
        self._wait_ms = wait_ms
        self._take = take
        self._order = order

    def run(self) -> None:
        after = 0
        while True:
            try:
                found = self._client.directives(after, self._wait_ms).directives
            except RunnerDismissed as error:
                self._order(Dismissed(str(error)))
                return
            except NotDelivered:
                return  # the client was closed
            except CallRefused as error:
                log.error("directives_refused", reason=str(error))
                time.sleep(_PAUSE_AFTER_REFUSAL)
                continue
            for directive in found:
                after = max(after, directive.id)
                self._take(directive)


class Heartbeats(Thread):
    """Sends a heartbeat at an interval. A lost one is no matter: the next follows."""

    def __init__(
        self,
        client: JobManagerClient,
        interval_ms: int,
        read: Callable[[], Heartbeat],
        order: Callable[[Order], None],
    ) -> None:
        super().__init__(name="heartbeats", daemon=True)
        self._client = client
        self._interval = interval_ms / 1000
        self._read = read
        self._order = order
        self._ended = Event()

    def end(self) -> None:
        self._ended.set()

    def run(self) -> None:
        was_delivered = True
        while not self._ended.wait(self._interval):
            try:
                reply = self._client.heartbeat(self._read())
            except RunnerDismissed as error:
                self._order(Dismissed(str(error)))
                return
            except (NotDelivered, CallRefused) as error:
                if was_delivered:
                    log.warning("heartbeat_not_delivered", reason=str(error))
                was_delivered = False
                continue
            if not was_delivered:
                log.info("heartbeat_delivered_again")
            was_delivered = True
            if reply.superseded:
                self._order(Replaced("the JobManager says so"))
                return
