"""A runner: registers, takes one job, runs it, reports, ends."""

import os
import socket
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from queue import Empty, SimpleQueue
from threading import Thread

from jobmanager.core.ids import AttemptNumber, JobId
from jobmanager.protocol.messages import (
    PROTOCOL_VERSION,
    AttemptReport,
    AttemptRunning,
    Barrier,
    Cancel,
    CheckpointAborted,
    CheckpointCompleted,
    Directive,
    Exit,
    Heartbeat,
    Run,
    RunnerHello,
    Stop,
)
from taskrunner import logs
from taskrunner.attempt import Attempt, Ending
from taskrunner.control.client import (
    CallRefused,
    JobManagerClient,
    NotDelivered,
    RunnerDismissed,
)
from taskrunner.control.threads import DirectivePoller, Heartbeats
from taskrunner.core.orders import CancelAsked, Dismissed, Order, Replaced, StopAsked
from taskrunner.snapshots import durable
from taskrunner.spark.job import SPARK_VERSION
from taskrunner.spark.session import close_session

_TERMINATION_GRACE = timedelta(seconds=5)
_EXIT_WAIT_SECONDS = 10.0
_IN_ORDER_SECONDS = 5.0
"""How long the end of an attempt waits for the report that it had begun."""
log = logs.get("runner")


class Runner:
    """The life of one runner process."""

    def __init__(
        self, client: JobManagerClient, report_within: timedelta = timedelta(hours=1)
    ) -> None:
        self._client = client
        self._report_within = report_within
        self._orders: SimpleQueue[Order] = SimpleQueue()
        self._runs: SimpleQueue[Directive | None] = SimpleQueue()
        self._attempt: Attempt | None = None
        # queues, not events: a signal handler may put into one at any moment
        self._exits: SimpleQueue[str] = SimpleQueue()
        self._running_report: Thread | None = None

    def run(self) -> None:
        """Returns when the runner's work is done, or there is none."""
        welcome = self._client.register(
            RunnerHello(
                protocol=PROTOCOL_VERSION,
                host=socket.gethostname(),
                pid=os.getpid(),
                spark_version=SPARK_VERSION,
            )
        )
        log.info("registered")
        heartbeats = Heartbeats(
            self._client, welcome.heartbeat_interval_ms, self._heartbeat, self._take_order
        )
        heartbeats.start()
        DirectivePoller(
            self._client, welcome.poll_wait_ms, self._take_directive, self._take_order
        ).start()
        directive = self._runs.get()
        if directive is not None:
            self._run_attempt(directive)
        heartbeats.end()

    def terminate(self) -> None:
        """A signal asks for the end: cancel with a short grace. Safe in a signal handler."""
        self._orders.put(CancelAsked(_TERMINATION_GRACE, "the runner was asked to terminate"))
        self._runs.put(None)
        self._exits.put("terminated")

    def _run_attempt(self, directive: Directive) -> None:
        assert isinstance(directive.body, Run)
        assert directive.job is not None
        assert directive.attempt is not None
        attempt = Attempt(
            JobId(directive.job),
            AttemptNumber(directive.attempt),
            directive.body,
            self._client,
            self._orders,
        )
        self._attempt = attempt
        log.info("attempt_started", job=attempt.job, attempt=attempt.number)
        try:
            ending = attempt.run(self._report_running)
            if ending is not None:
                self._report_ending(attempt, ending)
        finally:
            _close(attempt)
        if ending is not None:
            self._await_exit()
        log.info("attempt_ended", job=attempt.job, attempt=attempt.number)

    def _report_running(self, running: AttemptRunning) -> None:
        """Sent by a thread of its own: the job runs without a JobManager too."""
        assert self._attempt is not None
        report = _report(self._attempt, running)
        log.info("attempt_running", restored=[one.why for one in running.restored])
        self._running_report = Thread(
            target=self._send_running, args=(report,), name="running", daemon=True
        )
        self._running_report.start()

    def _send_running(self, report: AttemptReport) -> None:
        try:
            if self._client.report(report, within=self._report_within).superseded:
                self._orders.put(Replaced("the JobManager says so"))
        except (NotDelivered, CallRefused) as error:
            log.warning("running_not_reported", reason=str(error))
        except RunnerDismissed as error:
            self._orders.put(Dismissed(str(error)))

    def _report_ending(self, attempt: Attempt, ending: Ending) -> None:
        report = _report(attempt, ending)
        try:
            durable.write(attempt.layout.result(attempt.number), report.model_dump_json(indent=1))
        except Exception as error:  # storage may be the very thing that failed
            log.error("result_not_written", reason=str(error))
        if self._running_report is not None:
            self._running_report.join(_IN_ORDER_SECONDS)
        try:
            self._client.report(report, within=self._report_within)
            log.info("attempt_reported", ending=ending.event)
        except (NotDelivered, CallRefused, RunnerDismissed) as error:
            log.error("ending_not_reported", ending=ending.event, reason=str(error))

    def _await_exit(self) -> None:
        """Lets the JobManager say the last word, if it has one."""
        with suppress(Empty):
            self._exits.get(timeout=_EXIT_WAIT_SECONDS)

    def _heartbeat(self) -> Heartbeat:
        attempt = self._attempt
        if attempt is None:
            return Heartbeat(job=None, attempt=None, regions=[])
        return Heartbeat(job=attempt.job, attempt=attempt.number, regions=attempt.progress())

    def _take_directive(self, directive: Directive) -> None:
        """Called by the poller's thread."""
        attempt = self._attempt
        log.info("directive", kind=directive.body.kind, number=directive.id)
        match directive.body:
            case Run():
                self._runs.put(directive)
            case Exit(reason=reason):
                self._take_order(Dismissed(reason))
            case Cancel(grace_ms=grace_ms):
                grace = timedelta(milliseconds=grace_ms)
                self._take_order(CancelAsked(grace, "the JobManager asked for it"))
            case Stop() as stop:
                if attempt is not None and directive.attempt == attempt.number:
                    self._take_order(StopAsked(stop))
            case Barrier() | CheckpointCompleted() | CheckpointAborted() as body:
                if attempt is not None and directive.attempt == attempt.number:
                    attempt.tell(body)

    def _take_order(self, order: Order) -> None:
        self._orders.put(order)
        if isinstance(order, Dismissed):
            self._runs.put(None)
            self._exits.put(order.why)


def _close(attempt: Attempt) -> None:
    if attempt.spark is None:
        return
    try:
        close_session(attempt.spark)
    except Exception as error:  # its JVM may be what failed
        log.warning("session_not_closed", reason=f"{type(error).__name__}: {error}")


def _report(attempt: Attempt, body: AttemptRunning | Ending) -> AttemptReport:
    return AttemptReport(job=attempt.job, attempt=attempt.number, at=datetime.now(UTC), body=body)
