"""A simulated runner process: it registers, runs attempts, sends heartbeats, and reports.

It follows `taskrunner/runner.py` and `taskrunner/control`: calls are repeated until they are
answered, directives are handled in order and each once, and a kept runner waits for its next
attempt.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, assert_never

from jobmanager.core.ids import AttemptNumber, JobId, RunnerId
from jobmanager.protocol import messages
from jobmanager.protocol.messages import (
    AttemptReport,
    Directive,
    EndingReport,
    Heartbeat,
    RunnerHello,
)
from jobmanager.services.runner_tokens import Credentials
from taskrunner.core.attempt import events
from taskrunner.core.attempt.events import Order
from taskrunner.core.idle_timeout import IdleTimeout
from tests.simulation.attempt_threads import AttemptThreads
from tests.simulation.database import EPOCH
from tests.simulation.network import NotDelivered, Refused
from tests.simulation.scheduler import Party, Signal, Steps
from tests.simulation.story import brief

if TYPE_CHECKING:
    from tests.simulation.world import World

HEARTBEAT_MS = 2_000
_RETRY_MS = 700
_REPORT_WITHIN_MS = 3_600_000
_EXIT_WAIT_MS = 10_000
_PATIENCE = timedelta(minutes=2)
_TICK_MS = 1_000


@dataclass(frozen=True, slots=True)
class RunnerCall:
    """A request of a runner, with the credentials that every request carries."""

    shown: Credentials
    body: Any

    @property
    def runner(self) -> RunnerId:
        return self.shown.runner

    def __str__(self) -> str:
        return brief(self.body)


@dataclass(frozen=True, slots=True)
class DirectivesWanted:
    after: int

    def __str__(self) -> str:
        return f"directives after {self.after}?"


@dataclass(slots=True)
class _Reports:
    waiting: list[tuple[AttemptThreads, AttemptReport]] = field(default_factory=list)
    news: Signal = field(default_factory=Signal)
    is_sending: bool = False


class RunnerParty(Party):
    def __init__(
        self, world: "World", runner_id: RunnerId, secret: str, host: str, name: str
    ) -> None:
        super().__init__(name, world.scheduler)
        self.world = world
        self.id = runner_id
        self._secret = secret
        self._tokens: dict[int, str] = {}
        """Of the attempts that there was a `Run` for."""
        self.host = host
        self.exited = Signal()
        self.newest: AttemptThreads | None = None
        """The last attempt that there was a `Run` for: what directives are about."""
        self._current: AttemptThreads | None = None
        """The attempt that heartbeats speak of."""
        self._last_order: Order | None = None
        self._exits = Signal()
        self._next_attempt = Signal()
        self._keep_for = _PATIENCE
        self._reports = _Reports()
        self._was_delivered = True
        self.heard_at = self.seconds
        """When the last call was sent that a JobManager has answered."""
        self._said_goodbye: AttemptThreads | None = None
        """The last attempt that has reported how it ended, or is about to."""
        self._address = 0
        self._hours_off = 7 * (world.choices.below(3) - 1)
        self._is_of_version_before = world.choices.one_in(2)
        """Such a runner does not know what `awaits_new_batch` of a barrier means."""
        self.spawn("main", self._main())

    @property
    def seconds(self) -> float:
        return self.scheduler.now / 1000

    def wall_clock(self) -> datetime:
        """Which nobody has set right."""
        return EPOCH + timedelta(milliseconds=self.scheduler.now, hours=self._hours_off)

    def note(self, what: str, *details: Any) -> None:
        self.world.story.add(self.scheduler.now, self.name, what, *details)

    def crash(self) -> None:
        super().crash()
        self.exited.fire()

    # ── the process ───────────────────────────────────────────────────────────

    def _main(self) -> Steps[None]:
        version = messages.PROTOCOL_VERSION
        hello = RunnerHello(protocol=version, host=self.host, pid=1, spark_version="simulated")
        try:
            yield from self.ask(hello, None)
        except Refused as error:
            self._leave(f"not registered: {error}")
            return
        self.spawn("heartbeats", self._heartbeats())
        self.spawn("directives", self._poll())
        self.spawn("reports", self._send_reports())

    def _leave(self, why: str) -> None:
        self.note("the process ends: {}", why)
        self.crash()

    def ask(self, body: Any, until: int | None) -> Steps[Any]:
        """Calls until there is an answer; None: for ever. Raises `NotDelivered`, `Refused`."""
        servers = self.world.jobmanagers
        token = self._tokens.get(getattr(body, "attempt", None) or 0)
        call = RunnerCall(Credentials(self.id, self._secret, token), body)
        while True:
            try:
                server = servers[self._address % len(servers)]
                return (yield from self.world.network.ask(self.name, server, call))
            except NotDelivered:
                self._address += 1
                if until is not None and self.scheduler.now + _RETRY_MS > until:
                    raise
                yield self.scheduler.now + _RETRY_MS

    # ── keeping in touch ──────────────────────────────────────────────────────

    def _heartbeats(self) -> Steps[None]:
        while True:
            yield self.scheduler.now + HEARTBEAT_MS
            attempt = self._current
            beat = Heartbeat(
                job=attempt.job if attempt else None,
                attempt=attempt.number if attempt else None,
                regions=attempt.progress() if attempt else [],
            )
            sent_at = self.seconds
            try:
                reply = yield from self.ask(beat, 0)
            except NotDelivered:
                self._was_delivered = False
                continue
            except Refused as error:
                self._end(events.Dismissed(str(error)))
                return
            self._was_delivered = True
            if not reply.superseded:
                self.heard_at = sent_at
                if self.newest is not None:
                    self.newest.tell(events.HeartbeatAnswered(sent_at))
            if reply.superseded and self.newest and beat.attempt == self.newest.number:
                self.newest.tell(events.Replaced("the JobManager says so"))

    def _poll(self) -> Steps[None]:
        after = 0
        while True:
            try:
                found = yield from self.ask(DirectivesWanted(after), None)
            except Refused as error:
                self._end(events.Dismissed(str(error)))
                return
            for directive in found.directives:
                if directive.id > after:
                    after = directive.id
                    self._take(directive)
            yield None

    def _take(self, directive: Directive) -> None:
        body, newest = directive.body, self.newest
        match body:
            case messages.Run():
                self._take_run(directive, body)
                return
            case messages.Exit(reason=reason):
                self._end(events.Dismissed(reason))
                return
        if newest is None or directive.attempt != newest.number:
            return
        match body:
            case messages.Cancel(grace_ms=grace_ms, keep_runner_ms=keep_ms):
                grace = timedelta(milliseconds=grace_ms)
                keep_for = None if keep_ms is None else timedelta(milliseconds=keep_ms)
                self._keep_for = keep_for or _PATIENCE
                newest.tell(events.CancelAsked(grace, "the JobManager asked for it", keep_for))
            case messages.Stop():
                newest.tell(events.StopAsked(body, _time_left(body)))
            case messages.Barrier():
                if self._is_of_version_before:
                    body = body.model_copy(update={"awaits_new_batch": False})
                newest.tell(events.BarrierArrived(body, _time_left(body)))
            case messages.CheckpointCompleted() | messages.CheckpointAborted():
                newest.tell(body)
            case messages.UnknownDirective():
                raise AssertionError(f"both sides are of one version, and yet: {body}")
            case _:
                assert_never(body)

    def _take_run(self, directive: Directive, run: messages.Run) -> None:
        assert directive.job is not None
        assert directive.attempt is not None
        assert run.token is not None
        number = AttemptNumber(directive.attempt)
        self._tokens[number] = run.token
        attempt = AttemptThreads(self, JobId(directive.job), number, run, self._attempt_ended)
        self.newest = self._current = attempt
        self._next_attempt.fire()
        attempt.start()
        if self._last_order is not None:  # it came first
            attempt.tell(self._last_order)

    def _end(self, order: Order) -> None:
        """Ends the runner: its attempt is told, and there will be no other."""
        self._last_order = order
        if self.newest is not None and not self.newest.has_ended:
            self.newest.tell(order)
        elif self.newest is None:
            self._leave(str(order))
        self._exits.fire()

    # ── reports ───────────────────────────────────────────────────────────────

    def report(self, attempt: AttemptThreads, body: Any) -> None:
        said = AttemptReport(
            job=attempt.job, attempt=attempt.number, at=self.wall_clock(), body=body
        )
        if isinstance(body, EndingReport):
            self._said_goodbye = attempt
        self._reports.waiting.append((attempt, said))
        self._reports.news.fire()

    def _send_reports(self) -> Steps[None]:
        """One after the other, in order."""
        while True:
            if not self._reports.waiting:
                yield self._reports.news
                continue
            attempt, said = self._reports.waiting.pop(0)
            if isinstance(said.body, EndingReport):
                yield from self._report_ending(attempt, said)
                continue
            try:
                until = self.scheduler.now + _REPORT_WITHIN_MS
                reply = yield from self.ask(said, until)
            except NotDelivered:
                continue
            except Refused as error:
                self._end(events.Dismissed(str(error)))
                continue
            if reply.superseded:
                attempt.tell(events.Replaced("the JobManager says so"))

    def _attempt_ended(self, attempt: AttemptThreads, keeps_runner: bool) -> None:
        """Where the attempt said how it ended, the report comes first, then the rest."""
        if keeps_runner:
            # what is said of this attempt must not be taken for the next one's
            self._current = None
        if self._said_goodbye is not attempt:
            self._leave("the attempt was replaced or dismissed")

    def _report_ending(self, attempt: AttemptThreads, said: AttemptReport) -> Steps[None]:
        while not attempt.has_ended:
            yield None
        keeps_runner = self._current is None
        directory = attempt.storage.attempts.get(attempt.number)
        if directory is not None:
            directory.result = said
        yield None
        is_awaited = True
        try:
            reply = yield from self.ask(said, self.scheduler.now + _REPORT_WITHIN_MS)
            is_awaited = not reply.superseded
        except NotDelivered:
            is_awaited = False
        except Refused as error:
            is_awaited = error.status == 400
        if keeps_runner and is_awaited:
            yield from self._await_next(attempt)
        else:
            yield self._exits, self.scheduler.now + _EXIT_WAIT_MS
            self._leave("its work is done")

    def _await_next(self, last: AttemptThreads) -> Steps[None]:
        """A runner that was kept waits for its next attempt."""
        at_most = timedelta(milliseconds=_REPORT_WITHIN_MS)
        patience, self._keep_for = self._keep_for, _PATIENCE
        waiting = IdleTimeout(self.seconds, patience, max(patience, at_most))
        while not waiting.is_over(self.seconds, self._was_delivered):
            if self.newest is not last:
                return
            if self._last_order is not None:
                break
            yield self._next_attempt, self.scheduler.now + _TICK_MS
        self._leave("no next attempt came")


def _time_left(body: messages.Barrier | messages.Stop) -> timedelta:
    """As `taskrunner.attempt`: the runner's own date says nothing."""
    assert body.time_left_ms is not None
    return timedelta(milliseconds=body.time_left_ms)
