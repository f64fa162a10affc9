"""A runner: registers, runs an attempt, reports its end, and then ends or runs the next attempt.

registered ──run──▶ attempt ──▶ its end is reported ──▶ the process ends, or serves another runner
                      ▲                 │ stopped or paused, and the runner is kept
                      └─────run──── waits, Spark warm ──exit, a signal, idle timeout──▶ ends

The process may serve another runner (`taskrunner/reuse.py`) if this runner had one attempt, which
did not fail and has run no users' code.
"""

import os
import platform
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from queue import Empty, SimpleQueue
from threading import Thread

from jobmanager.core.graph import graph_document
from jobmanager.core.ids import AttemptNumber, JobId
from jobmanager.core.runner_reuse import obstacle
from jobmanager.protocol.messages import (
    PROTOCOL_VERSION,
    AttemptFailedReport,
    AttemptInputEnded,
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
    ProgressReport,
    Run,
    RunnerHello,
    RunnerMemory,
    RunnerThread,
    Stop,
    UnknownDirective,
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
from taskrunner.thread_dump import read_threads

_TERMINATION_GRACE = timedelta(seconds=5)
_EXIT_WAIT_SECONDS = 10.0
_IN_ORDER_SECONDS = 5.0
"""How long the report of an attempt's end waits for the delivery of earlier reports."""
_THREAD_SECONDS = 10.0
"""How long a call of a thread that is to end may take."""
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
        announce: Callable[[], bool] = lambda: False,
        memory_use: MemoryUse | None = None,
    ) -> None:
        """`announce` is asked when the attempt has ended: whether the process stays."""
        self._client = client
        self._announce = announce
        self._has_had_attempts = 0
        self.is_returning = False
        """Whether the process may serve another runner, after `run`. Spark's session is open."""
        self._report_within = report_within
        self._patience = patience
        """How long a kept runner waits for its next attempt while a JobManager is reachable."""
        self._session = session or WarmSession()
        self._memory_use = memory_use or MemoryUse(self._session)
        self._speakers: list[Thread] = []
        """The threads that speak for this runner."""
        self._beats = 0
        # queues, not events: a signal handler may put into a queue at any moment
        self._attempts: SimpleQueue[AttemptRun | None] = SimpleQueue()
        self._exits: SimpleQueue[str] = SimpleQueue()
        self._heard_at = time.monotonic()
        """When the last call was sent that a JobManager has answered, and has written down."""
        self._newest: AttemptRun | None = None
        """The attempt of the last `Run`: directives are about this attempt."""
        self._current: AttemptRun | None = None
        """The attempt that heartbeats name."""
        self._last_order: Order | None = None
        """The order that ends the runner itself, and so every attempt it gets."""

    def run(self) -> None:
        """Runs attempts; returns when there is no more work for this runner."""
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
        poller = DirectivePoller(
            self._client, welcome.poll_wait_ms, self._take_directive, self._end
        )
        poller.start()
        self._speakers = [poller, self._heartbeats]
        try:
            attempt = self._attempts.get()
            while attempt is not None:
                attempt = self._run_attempt(attempt)
            self._heartbeats.end()
            if self.is_returning:
                self.is_returning = self.await_threads()
        finally:
            if not self.is_returning:
                self._session.close()

    def terminate(self) -> None:
        """Cancels the attempt with a short grace period, on a signal. Safe in a signal handler."""
        self._end(CancelAsked(_TERMINATION_GRACE, "the runner was asked to terminate"))

    def dismiss(self, why: str) -> None:
        """Ends the runner at once, without a report: the JobManager has given it up."""
        self._end(Dismissed(why))

    def _run_attempt(self, attempt: AttemptRun) -> AttemptRun | None:
        """Runs an attempt to its end. Returns the attempt that follows in this process, if any."""
        self._current = attempt
        log.info("attempt_started", job=attempt.job, attempt=attempt.number)
        reporter = Reporter(self._client, self._report_within, attempt.order)
        reporter.start()
        ending = attempt.run(lambda body: self._report_progress(attempt, body, reporter))
        log.info("attempt_ended", job=attempt.job, attempt=attempt.number)
        if ending is None:
            return None
        reporter.finish(_IN_ORDER_SECONDS)
        stays = self._may_return(attempt, ending) and self._announce()
        if attempt.keeps_runner:
            # the next attempt may be this runner's at any moment from then on, and what is
            # said of this one must not be taken for it
            self._current = None
            self._heartbeats.let_pass()
        is_awaited = self._report_ending(attempt, ending)
        if attempt.keeps_runner and is_awaited:
            return self._await_next(attempt.keep_for or self._patience)
        if stays and is_awaited and self._await_exit():
            self.is_returning = isinstance(self._last_order, Dismissed)
            return None
        self._session.close()
        self._await_exit()
        return None

    def _may_return(self, attempt: AttemptRun, ending: EndingReport) -> bool:
        if attempt.keeps_runner or self._has_had_attempts > 1 or self._last_order is not None:
            return False
        if isinstance(ending, AttemptFailedReport):
            return False
        found = obstacle(attempt.document, graph_document.parse(attempt.document))
        if found is not None:
            log.info("not_reused", reason=found)
        return found is None

    def await_threads(self) -> bool:
        """Waits for the threads that speak for this runner: they must not outlive it. Returns
        whether they have ended.
        """
        if self._speakers:
            self._heartbeats.end()
        for thread in self._speakers:
            thread.join(_THREAD_SECONDS)
        if any(thread.is_alive() for thread in self._speakers):
            log.warning("not_reused", reason="a thread of the runner goes on")
            return False
        return True

    def _report_progress(
        self, attempt: AttemptRun, body: ProgressReport, reporter: Reporter
    ) -> None:
        match body:
            case AttemptPrepared(repartitioned=regions):
                log.info("attempt_prepared", repartitioned=[one.region for one in regions])
            case AttemptRunning(restored=restored):
                log.info("attempt_running", restored=[one.why for one in restored])
            case AttemptInputEnded():
                log.info("input_ended", waits_for="a checkpoint that covers all output")
        reporter.send(_report(attempt, body))

    def _report_ending(self, attempt: AttemptRun, ending: EndingReport) -> bool:
        """Reports the end of the attempt; returns whether to wait for a next attempt. After a
        refusal too: the runner may already have its next attempt, if an earlier try of this
        report arrived and only its answer was lost.
        """
        report = _report(attempt, ending)
        try:
            durable.write(attempt.layout.result(attempt.number), report.model_dump_json(indent=1))
        except Exception as error:  # the attempt may have failed because of storage
            log.error("result_not_written", reason=str(error))
        try:
            reply = self._client.report(report, within=self._report_within)
        except (NotDelivered, CallRefused, RunnerDismissed) as error:
            log.error("ending_not_reported", ending=ending.event, reason=str(error))
            return isinstance(error, CallRefused)
        log.info("attempt_reported", ending=ending.event)
        return not reply.superseded

    def _await_next(self, patience: timedelta) -> AttemptRun | None:
        """Waits for the next attempt of a kept runner; None: there is none."""
        log.info("waiting", seconds=patience.total_seconds())
        at_most = max(patience, self._report_within)
        waiting = IdleTimeout(time.monotonic(), patience, at_most)
        while not waiting.is_over(time.monotonic(), self._heartbeats.was_delivered):
            with suppress(Empty):
                return self._attempts.get(timeout=_TICK_SECONDS)
        log.warning("no_next_attempt")
        return None

    def _await_exit(self) -> bool:
        """Waits for the JobManager's last directive; returns whether it came."""
        try:
            self._exits.get(timeout=_EXIT_WAIT_SECONDS)
        except Empty:
            return False
        return True

    def _heartbeat(self) -> Heartbeat:
        attempt = self._current
        threads = self._threads()
        if attempt is None:
            memory = self._memory()
            return Heartbeat(job=None, attempt=None, regions=[], memory=memory, threads=threads)
        return Heartbeat(
            job=attempt.job,
            attempt=attempt.number,
            regions=attempt.progress(),
            memory=self._memory(),
            data_moved=self._memory_use.data_moved() if attempt.is_starting else None,
            threads=threads,
        )

    def _threads(self) -> list[RunnerThread] | None:
        return read_threads(self._session) if self._heartbeats.wants_threads else None

    def _memory(self) -> RunnerMemory | None:
        """The memory use, measured only every few heartbeats, because measuring takes long."""
        self._beats += 1
        return self._memory_use.measure() if self._beats % _MEMORY_EVERY == 1 else None

    def _take_directive(self, directive: Directive) -> None:
        """Handles a directive. Called by the poller's thread."""
        log.info("directive", kind=directive.body.kind, number=directive.id)
        match directive.body:
            case UnknownDirective(kind=kind, fault=fault):
                # of a newer JobManager: the attempt goes on without it
                log.warning("directive_skipped", kind=kind, number=directive.id, reason=fault)
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
        if run.token is not None:
            self._client.learn_token(directive.attempt, run.token)
        attempt = AttemptRun(
            JobId(directive.job),
            AttemptNumber(directive.attempt),
            run,
            self._client,
            self._session,
            self._heard_at,
        )
        self._newest = attempt
        self._has_had_attempts += 1
        if self._last_order is not None:  # it came first
            attempt.order(self._last_order)
        self._attempts.put(attempt)

    def _end(self, order: Order) -> None:
        """Ends the runner: its attempt gets the order, and no other attempt is run."""
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
        case Cancel(grace_ms=grace_ms, keep_runner_ms=keep_ms):
            grace = timedelta(milliseconds=grace_ms)
            keep_for = None if keep_ms is None else timedelta(milliseconds=keep_ms)
            why = "the JobManager asked for it" if keep_for is None else "the job is paused"
            attempt.order(CancelAsked(grace, why, keep_for))
        case Stop() | Barrier() | CheckpointCompleted() | CheckpointAborted():
            attempt.tell(body)


def _report(attempt: AttemptRun, body: ProgressReport | EndingReport) -> AttemptReport:
    return AttemptReport(job=attempt.job, attempt=attempt.number, at=datetime.now(UTC), body=body)
