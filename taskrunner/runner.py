"""A runner: registers, takes an attempt, runs it, reports, and ends or takes the next.

registered ──run──▶ attempt ──▶ its end is reported ──▶ the process ends
                      ▲                 │ stopped, and the runner is kept
                      └─────run──── waits, Spark warm ──exit, a signal, no word──▶ ends
"""

import os
import platform
import socket
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from queue import Empty, SimpleQueue

from jobmanager.core.ids import AttemptNumber, JobId
from jobmanager.protocol.messages import (
    PROTOCOL_VERSION,
    AttemptPrepared,
    AttemptReport,
    AttemptRunning,
    Barrier,
    Cancel,
    CheckpointAborted,
    CheckpointCompleted,
    Directive,
    EndingReport,
    Exit,
    Heartbeat,
    Run,
    RunnerHello,
    RunnerMemory,
    Stop,
)
from taskrunner import logs
from taskrunner.attempt import AttemptRun
from taskrunner.control.client import (
    CallRefused,
    JobManagerClient,
    NotDelivered,
    RunnerDismissed,
)
from taskrunner.control.threads import DirectivePoller, HeartbeatThread, Reporter
from taskrunner.core.attempt.events import CancelAsked, Dismissed, Order, Replaced
from taskrunner.core.idle_timeout import IdleTimeout
from taskrunner.memory_use import MemoryUse
from taskrunner.snapshots import durable
from taskrunner.spark.run.job import SPARK_VERSION
from taskrunner.spark.session.session import WarmSession

_TERMINATION_GRACE = timedelta(seconds=5)
_EXIT_WAIT_SECONDS = 10.0
_IN_ORDER_SECONDS = 5.0
"""How long the end of an attempt waits for the reports before it."""
_TICK_SECONDS = 0.5
_MEMORY_EVERY = 5
"""Heartbeats."""
log = logs.get("runner")


class RunnerProcess:
    """The life of one runner process."""

    def __init__(
        self,
        client: JobManagerClient,
        session: WarmSession | None = None,
        report_within: timedelta = timedelta(hours=1),
        patience: timedelta = timedelta(minutes=2),
    ) -> None:
        self._client = client
        self._report_within = report_within
        self._patience = patience
        """How long a kept runner waits for its next attempt, if a JobManager is there."""
        self._session = session or WarmSession()
        self._memory_use = MemoryUse(self._session)
        self._beats = 0
        # queues, not events: a signal handler may put into one at any moment
        self._attempts: SimpleQueue[AttemptRun | None] = SimpleQueue()
        self._exits: SimpleQueue[str] = SimpleQueue()
        self._heard_at = time.monotonic()
        """When the last call was sent that a JobManager has answered, and has written down."""
        self._newest: AttemptRun | None = None
        """The last one that there was a `Run` for: what directives are about."""
        self._current: AttemptRun | None = None
        """The one that heartbeats speak of."""
        self._last_order: Order | None = None
        """What ends the runner itself, and so whatever attempt it has."""

    def run(self) -> None:
        """Returns when the runner's work is done, or there is none."""
        self._heard_at = time.monotonic()
        welcome = self._client.register(
            RunnerHello(
                protocol=PROTOCOL_VERSION,
                host=socket.gethostname(),
                pid=os.getpid(),
                spark_version=SPARK_VERSION,
                python_version=platform.python_version(),
                headgate_version=version("headgate"),
            )
        )
        log.info("registered")
        self._heartbeats = HeartbeatThread(
            self._client,
            welcome.heartbeat_interval_ms,
            self._heartbeat,
            self._note_answer,
            self._replace,
            self._end,
        )
        self._heartbeats.start()
        DirectivePoller(self._client, welcome.poll_wait_ms, self._take_directive, self._end).start()
        try:
            attempt = self._attempts.get()
            while attempt is not None:
                attempt = self._run_attempt(attempt)
        finally:
            self._session.close()
        self._heartbeats.end()

    def terminate(self) -> None:
        """A signal asks for the end: cancel with a short grace. Safe in a signal handler."""
        self._end(CancelAsked(_TERMINATION_GRACE, "the runner was asked to terminate"))

    def _run_attempt(self, attempt: AttemptRun) -> AttemptRun | None:
        """Runs an attempt to its end. Returns the one that is to follow in this process."""
        self._current = attempt
        log.info("attempt_started", job=attempt.job, attempt=attempt.number)
        reporter = Reporter(self._client, self._report_within, attempt.order)
        reporter.start()
        ending = attempt.run(lambda body: self._report_progress(attempt, body, reporter))
        log.info("attempt_ended", job=attempt.job, attempt=attempt.number)
        if ending is None:
            return None
        reporter.finish(_IN_ORDER_SECONDS)
        if attempt.keeps_runner:
            # the next attempt may be this runner's at any moment from then on, and what is
            # said of this one must not be taken for it
            self._current = None
            self._heartbeats.let_pass()
        is_awaited = self._report_ending(attempt, ending)
        if attempt.keeps_runner and is_awaited:
            return self._await_next()
        self._session.close()
        self._await_exit()
        return None

    def _report_progress(
        self, attempt: AttemptRun, body: AttemptPrepared | AttemptRunning, reporter: Reporter
    ) -> None:
        match body:
            case AttemptPrepared(repartitioned=regions):
                log.info("attempt_prepared", repartitioned=[one.region for one in regions])
            case AttemptRunning(restored=restored):
                log.info("attempt_running", restored=[one.why for one in restored])
        reporter.send(_report(attempt, body))

    def _report_ending(self, attempt: AttemptRun, ending: EndingReport) -> bool:
        """Whether somebody may have waited for it. A refusal does not say: this runner may have
        its next attempt already, if it was the answer to an earlier try that was lost.
        """
        report = _report(attempt, ending)
        try:
            durable.write(attempt.layout.result(attempt.number), report.model_dump_json(indent=1))
        except Exception as error:  # storage may be the very thing that failed
            log.error("result_not_written", reason=str(error))
        try:
            reply = self._client.report(report, within=self._report_within)
        except (NotDelivered, CallRefused, RunnerDismissed) as error:
            log.error("ending_not_reported", ending=ending.event, reason=str(error))
            return isinstance(error, CallRefused)
        log.info("attempt_reported", ending=ending.event)
        return not reply.superseded

    def _await_next(self) -> AttemptRun | None:
        """The next attempt of a runner that was kept; None: there is none."""
        log.info("waiting")
        waiting = IdleTimeout(time.monotonic(), self._patience, self._report_within)
        while not waiting.is_over(time.monotonic(), self._heartbeats.was_delivered):
            with suppress(Empty):
                return self._attempts.get(timeout=_TICK_SECONDS)
        log.warning("no_next_attempt")
        return None

    def _await_exit(self) -> None:
        """Lets the JobManager say the last word, if it has one."""
        with suppress(Empty):
            self._exits.get(timeout=_EXIT_WAIT_SECONDS)

    def _heartbeat(self) -> Heartbeat:
        attempt = self._current
        if attempt is None:
            return Heartbeat(job=None, attempt=None, regions=[], memory=self._memory())
        return Heartbeat(
            job=attempt.job,
            attempt=attempt.number,
            regions=attempt.progress(),
            memory=self._memory(),
        )

    def _memory(self) -> RunnerMemory | None:
        """Not each time: to look at all processes takes longer than the rest."""
        self._beats += 1
        return self._memory_use.measure() if self._beats % _MEMORY_EVERY == 1 else None

    def _take_directive(self, directive: Directive) -> None:
        """Called by the poller's thread."""
        log.info("directive", kind=directive.body.kind, number=directive.id)
        match directive.body:
            case Run() as run:
                self._take_run(directive, run)
            case Exit(reason=reason):
                self._end(Dismissed(reason))
            case Cancel() | Stop() | Barrier() | CheckpointCompleted() | CheckpointAborted():
                attempt = self._newest
                if attempt is not None and directive.attempt == attempt.number:
                    _pass_on(directive.body, attempt)

    def _take_run(self, directive: Directive, run: Run) -> None:
        assert directive.job is not None
        assert directive.attempt is not None
        attempt = AttemptRun(
            JobId(directive.job),
            AttemptNumber(directive.attempt),
            run,
            self._client,
            self._session,
            self._heard_at,
        )
        self._newest = attempt
        if self._last_order is not None:  # it came first
            attempt.order(self._last_order)
        self._attempts.put(attempt)

    def _end(self, order: Order) -> None:
        """Ends the runner: its attempt is told, and there will be no other."""
        self._last_order = order
        if self._newest is not None:
            self._newest.order(order)
        self._attempts.put(None)
        self._exits.put(str(order))

    def _note_answer(self, number: int | None, sent_at: float) -> None:
        """Called by the thread of heartbeats. A heartbeat that named no attempt, or the attempt
        before, has put off the time at which the JobManager takes this runner to be lost, too.
        """
        self._heard_at = sent_at
        if self._newest is not None:
            self._newest.heartbeat_answered(sent_at)

    def _replace(self, number: int | None) -> None:
        attempt = self._newest
        if attempt is not None and number == attempt.number:
            attempt.order(Replaced("the JobManager says so"))


def _pass_on(
    body: Cancel | Stop | Barrier | CheckpointCompleted | CheckpointAborted, attempt: AttemptRun
) -> None:
    match body:
        case Cancel(grace_ms=grace_ms):
            grace = timedelta(milliseconds=grace_ms)
            attempt.order(CancelAsked(grace, "the JobManager asked for it"))
        case Stop() | Barrier() | CheckpointCompleted() | CheckpointAborted():
            attempt.tell(body)


def _report(
    attempt: AttemptRun, body: AttemptPrepared | AttemptRunning | EndingReport
) -> AttemptReport:
    return AttemptReport(job=attempt.job, attempt=attempt.number, at=datetime.now(UTC), body=body)
