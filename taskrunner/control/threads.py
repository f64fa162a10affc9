"""The threads that talk to the JobManager: for directives, for heartbeats, and for reports."""

import time
from collections.abc import Callable
from datetime import timedelta
from queue import SimpleQueue
from threading import Event, Lock

from jobmanager.protocol.messages import AttemptReport, Directive, Exit, Heartbeat
from taskrunner import logs
from taskrunner.context_thread import ContextThread
from taskrunner.control.client import (
    CallRefused,
    JobManagerClient,
    NotDelivered,
    RunnerDismissed,
)
from taskrunner.core.attempt.events import Dismissed, Order, Replaced

_PAUSE_AFTER_REFUSAL = 5.0
log = logs.get("control")


class DirectivePoller(ContextThread):
    """Fetches directives, in order and each once, until the runner is to exit or the client is
    closed.
    """

    def __init__(
        self,
        client: JobManagerClient,
        wait_ms: int,
        take: Callable[[Directive], None],
        order: Callable[[Order], None],
    ) -> None:
        super().__init__("directives")
        self._client = client
        self._wait_ms = wait_ms
        self._take = take
        self._order = order

    def work(self) -> None:
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
                if isinstance(directive.body, Exit):
                    return  # no directive follows


class HeartbeatThread(ContextThread):
    """Sends a heartbeat at an interval. A lost heartbeat does not matter: the next one follows."""

    def __init__(
        self,
        client: JobManagerClient,
        interval_ms: int,
        read: Callable[[], Heartbeat],
        answered: Callable[[int | None, float], None],
        superseded: Callable[[int | None], None],
        order: Callable[[Order], None],
    ) -> None:
        super().__init__("heartbeats")
        self._client = client
        self._interval = interval_ms / 1000
        self._read = read
        self._answered = answered
        """Told the attempt of a heartbeat that was answered, and when it was sent."""
        self._superseded = superseded
        """Called with the attempt of a heartbeat whose answer says that it was superseded."""
        self._order = order
        self._sending = Lock()
        self._ended = Event()
        self.was_delivered = True
        """Whether the last heartbeat was delivered."""
        self.wants_threads = False
        """Whether the next heartbeat has to say what the threads do."""

    def end(self) -> None:
        self._ended.set()

    def let_pass(self) -> None:
        """Waits until a heartbeat that is under way has been answered."""
        with self._sending:
            pass

    def work(self) -> None:
        while not self._ended.wait(0 if self.wants_threads else self._interval):
            try:
                with self._sending:
                    heartbeat = self._read()
                    self.wants_threads = False
                    sent_at = time.monotonic()
                    reply = self._client.heartbeat(heartbeat)
            except RunnerDismissed as error:
                self._order(Dismissed(str(error)))
                return
            except (NotDelivered, CallRefused) as error:
                if self.was_delivered:
                    log.warning("heartbeat_not_delivered", reason=str(error))
                self.was_delivered = False
                continue
            if not self.was_delivered:
                log.info("heartbeat_delivered_again")
            self.was_delivered = True
            self.wants_threads = reply.wants_threads
            if reply.heartbeat_interval_ms is not None:
                self._interval = reply.heartbeat_interval_ms / 1000
            if reply.superseded:
                self._superseded(heartbeat.attempt)
            else:
                self._answered(heartbeat.attempt, sent_at)


class Reporter(ContextThread):
    """Sends an attempt's reports in the background: the attempt does not wait for a JobManager."""

    def __init__(
        self, client: JobManagerClient, within: timedelta, order: Callable[[Order], None]
    ) -> None:
        super().__init__("reports")
        self._client = client
        self._within = within
        self._order = order
        self._reports: SimpleQueue[AttemptReport | None] = SimpleQueue()

    def send(self, report: AttemptReport) -> None:
        """Queues a report. Reports are sent in order."""
        self._reports.put(report)

    def finish(self, seconds: float) -> None:
        """Waits up to this long for the remaining reports to be sent."""
        self._reports.put(None)
        self.join(seconds)

    def work(self) -> None:
        while (report := self._reports.get()) is not None:
            try:
                if self._client.report(report, within=self._within).superseded:
                    self._order(Replaced("the JobManager says so"))
            except (NotDelivered, CallRefused) as error:
                log.warning("not_reported", event_name=report.body.event, reason=str(error))
            except RunnerDismissed as error:
                self._order(Dismissed(str(error)))
