"""A simulated JobManager: the real lease, the real life, and the real use cases on a simulated
database (`unit_of_work.py`); the real dispatcher and the real reaper.

The loops and the answers to runners and users around them are simulated. A crash can happen
wherever a task waits: before the commit, between the commit and the answer, between an effect and
the record that it is done.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from jobmanager.core import errors
from jobmanager.core.ids import JobId, JobManagerId, RunnerId
from jobmanager.core.life import lease as leases
from jobmanager.core.life import life as lives
from jobmanager.core.life.checkpoint_rules import is_due
from jobmanager.core.life.draft import Life, Step
from jobmanager.core.life.events import (
    AttemptNews,
    CheckpointDue,
    CheckpointNews,
    HealthExamined,
    LifeEvent,
)
from jobmanager.core.life.health import HealthLimits
from jobmanager.core.life.job import JobStatus
from jobmanager.core.life.lease import (
    Candidate,
    Following,
    Leading,
    LeaseRenewed,
    LeaseTaken,
    LeaseTimePassed,
    RenewalRefused,
    Standing,
    Term,
)
from jobmanager.loops.reaper import Reaper
from jobmanager.services import lives as lives_of_jobs
from jobmanager.services import runners
from jobmanager.services.dispatch import Dispatcher, EffectMustWait
from jobmanager.services.ports.runners import Runner
from tests.simulation.database import EPOCH, NotLeading, Outage, OutboxRow
from tests.simulation.network import Call, Refused
from tests.simulation.ports import LaunchFailure, SimulatedLauncher, SimulatedStorage
from tests.simulation.requests import Request, answer_to
from tests.simulation.runner import RunnerCall
from tests.simulation.runner_desk import answer_runner
from tests.simulation.scheduler import Party, Steps
from tests.simulation.storage import LockUnavailable
from tests.simulation.unit_of_work import SimulatedUnitOfWork, running

if TYPE_CHECKING:
    from tests.simulation.world import World

LEASE = timedelta(seconds=6)
RENEW_EVERY_MS = 2_000
HEARTBEAT_TIMEOUT = timedelta(seconds=9)
FENCE_AFTER = timedelta(seconds=12)
START_TIMEOUT = timedelta(seconds=30)
STALL_AFTER = timedelta(seconds=30)
_LAUNCH_TRIES = 3
_TICK_MS = 1_000
_WATCH_MS = 3_000


class JobManagerParty(Party):
    def __init__(self, world: "World", name: str, host: str) -> None:
        super().__init__(name, world.scheduler)
        self.world = world
        self.database = world.database
        self.host = host
        self.clock_offset_ms = 0
        self.starts = 0
        self.listening_since = EPOCH
        self._standing: Standing = Following()
        self._candidate = Candidate(JobManagerId(UUID(int=0)), "")
        self._led_term: Term | None = None
        self._watched: set[RunnerId] = set()
        self._launcher = SimulatedLauncher(self)
        self._storage = SimulatedStorage(world.storage)
        self.start()

    # ── the process ───────────────────────────────────────────────────────────

    def start(self) -> None:
        """A process that starts again is another JobManager, and remembers nothing."""
        self.is_up = True
        self.starts += 1
        identity = JobManagerId(UUID(int=self.world.next_number()))
        self._candidate = Candidate(identity, f"http://{self.name}")
        self._standing, self._led_term, self._watched = Following(), None, set()
        self.spawn("leadership", self._lead())

    @property
    def is_reachable(self) -> bool:
        return self.is_up

    def now(self) -> datetime:
        """The wall clock of this machine, which can be stepped."""
        return EPOCH + timedelta(milliseconds=self.scheduler.now + self.clock_offset_ms)

    @property
    def seconds(self) -> float:
        """A clock that goes on evenly, whatever happens to the wall clock."""
        return self.scheduler.now / 1000

    @property
    def term(self) -> Term | None:
        standing = leases.transition(self._standing, LeaseTimePassed(self.seconds))
        return standing.term if isinstance(standing, Leading) else None

    def note(self, what: str, *details: Any) -> None:
        self.world.story.add(self.scheduler.now, self.name, what, *details)

    def take(self, call: Call) -> None:
        self.spawn(f"answer to {call.sender}", self._answer(call))

    def _answer(self, call: Call) -> Steps[None]:
        reply, error = None, None
        try:
            if isinstance(call.body, RunnerCall):
                reply = yield from answer_runner(self, call.body)
            else:
                assert isinstance(call.body, Request)
                reply = yield from answer_to(self, call.body)
        except (NotLeading, Outage) as outage:
            error = Refused(503, f"{type(outage).__name__} {outage}")
        except errors.DomainError as refusal:
            error = Refused(_status(refusal), str(refusal))
        except Refused as refusal:
            error = refusal
        self.world.network.answer(self.name, call, reply, error)

    # ── who leads ─────────────────────────────────────────────────────────────

    def _lead(self) -> Steps[None]:
        """As `jobmanager/loops/leadership.py`: the database's clock decides about the lease,
        this process's own clock about how long it believes to have it.
        """
        while True:
            self._standing = leases.transition(self._standing, LeaseTimePassed(self.seconds))
            standing = self._standing
            yield from self.world.maybe_pause()
            asked_at = self.seconds
            if isinstance(standing, Leading):
                event: leases.LeaseEvent = RenewalRefused()
                yield from self.world.maybe_pause()
                if self.database.renew_lease(standing.term, LEASE):
                    event = LeaseRenewed(asked_at, LEASE)
                yield from self.world.maybe_pause()
                self._standing = leases.transition(self._standing, event)
            else:
                yield from self._stand()
            self._standing = leases.transition(self._standing, LeaseTimePassed(self.seconds))
            self._begin_to_lead()
            yield self.scheduler.now + RENEW_EVERY_MS

    def _stand(self) -> Steps[None]:
        seen = self.database.lease
        if not leases.may_take(seen, self._candidate, self.database.now()):
            return
        asked_at = self.seconds
        yield from self.world.maybe_pause()
        term = self.database.take_lease(self._candidate, seen.term, LEASE)
        yield from self.world.maybe_pause()
        if term is not None:
            taken = LeaseTaken(term, asked_at, LEASE)
            self._standing = leases.transition(self._standing, taken)

    def _begin_to_lead(self) -> None:
        term = self.term
        if term == self._led_term:
            return
        self._led_term = term
        self._watched = set()
        if term is None:
            self.note("does not lead any more")
            return
        self.note("leads in term {}", term)
        self.listening_since = self.now()
        self.spawn("adopt", self._adopt())
        self.spawn("dispatch", self._dispatch(term))
        self.spawn("checkpoint timer", self._time_checkpoints(term))
        self.spawn("reaper", self._reap(term))
        self.spawn("watchdog", self._watch_health(term))

    def leads_in(self, term: Term) -> bool:
        return self._led_term == term

    # ── use cases ─────────────────────────────────────────────────────────────

    def unit_of_work(self) -> Any:
        return SimulatedUnitOfWork(self)

    def use(self, job: JobId, event_of_life: Callable[[Life], LifeEvent | None]) -> Steps[None]:
        """Load, step, save, commit; nothing, where there is no event."""
        return running(self._use(job, event_of_life))

    async def _use(self, job: JobId, event_of_life: Callable[[Life], LifeEvent | None]) -> None:
        async with self.unit_of_work() as uow:
            await uow.jobs.get_for_update(job)
            event = event_of_life(self.database.load(job))
            if event is not None:
                await lives_of_jobs.move(uow, job, event)
                await uow.commit()

    def tell_step(self, before: Life, event: LifeEvent, step: Step) -> None:
        self.note("{}", _Told(before, event, step))

    # ── loops ─────────────────────────────────────────────────────────────────

    def _adopt(self) -> Steps[None]:
        for row in list(self.database.runners.values()):
            if row.exited_at is None and row.pid is not None:
                self.watch(row)
        yield None

    def _dispatch(self, term: Term) -> Steps[None]:
        while self.leads_in(term):
            done = []
            for entry in [row for row in self.database.outbox.values() if row.is_for_jobmanager]:
                try:
                    yield from self._carry_out(entry)
                except LaunchFailure as error:
                    yield from self._note_failure(entry, error)
                    continue
                except (NotLeading, Outage, LockUnavailable, EffectMustWait):
                    continue
                done.append(entry.id)
                yield None
            if done:
                yield from self._forget(done)
            yield self.database.outbox_news, self.scheduler.now + _TICK_MS

    def _note_failure(self, entry: OutboxRow, error: LaunchFailure) -> Steps[None]:
        """As `jobmanager/loops/dispatch.py`: a launch is tried three times."""
        tries = self.database.tries.get(entry.id, 0) + 1
        self.database.tries[entry.id] = tries
        if tries >= _LAUNCH_TRIES and entry.attempt is not None:
            now, attempt = self.now(), entry.attempt
            failed = runners.launch_failed(
                self.unit_of_work(), entry.job_id, attempt, str(error), now
            )
            try:
                yield from running(failed)
            except (NotLeading, Outage):
                return
            yield from self._forget([entry.id])

    def _forget(self, done: list[int]) -> Steps[None]:
        def delete() -> None:
            for one in done:
                self.database.outbox.pop(one, None)

        try:
            transaction = self.database.begin(self.term)
            transaction.write(delete)
            yield None
            transaction.commit()
        except (NotLeading, Outage):
            return

    def _carry_out(self, entry: OutboxRow) -> Steps[None]:
        self.note("carries out {}", entry.effect)
        units: Any = self.unit_of_work
        storage: Any = self._storage
        effect: Any = entry.effect
        dispatcher = Dispatcher(units, self._launcher, storage, FENCE_AFTER, self.listening_since)
        return running(dispatcher.carry_out(entry.job_id, effect, self.now()))

    def watch(self, row: Runner) -> None:
        """Sees to it that the end of a process of this machine is noticed."""
        if row.host == self.host and row.id not in self._watched:
            self._watched.add(row.id)
            self.spawn(f"watch {row.id.int}", self._await_exit(row.id))

    def _await_exit(self, runner: RunnerId) -> Steps[None]:
        led = self._led_term
        while (process := self.world.process(runner, self.host)) is not None:
            yield process.exited, self.scheduler.now + 10 * _TICK_MS
        while led is not None and self.leads_in(led):
            row = self.database.runners[runner]
            if row.exited_at is not None:
                return
            try:
                directory = self.world.storage.of(row.job_id).attempts.get(row.attempt)
                said: Any = directory.result if directory else None
                last_word = said.model_dump(mode="json") if said is not None else None
                how, now = "the process is gone", self.now()
                left = runners.exited(self.unit_of_work(), runner, how, last_word, now)
                yield from running(left)
                return
            except (NotLeading, Outage):
                yield self.scheduler.now + _TICK_MS

    def _time_checkpoints(self, term: Term) -> Steps[None]:
        while self.leads_in(term):
            for job, life in list(self.database.lives.items()):
                if is_due(life, self.now()):
                    yield from self._try(job, lambda life: CheckpointDue(self.now()))
            yield self.scheduler.now + _TICK_MS

    def _watch_health(self, term: Term) -> Steps[None]:
        """As `jobmanager/loops/watchdog.py`: a lock only where something is to be written."""
        while self.leads_in(term):
            yield self.scheduler.now + _WATCH_MS
            for job in list(self.database.lives):
                life = self.database.load(job)
                if life.job.job.status is JobStatus.RUNNING:
                    step = lives.step(life, self._examined(life))
                    if step.life.job != life.job:
                        yield from self._try(job, self._examined)

    def _examined(self, life: Life) -> HealthExamined:
        row = self.database.runner_of(life.job.id, life.job.job.attempt)
        newest = life.checkpoints[life.restorable[-1]] if life.restorable else None
        return HealthExamined(
            self.now(),
            HealthLimits(stall_after=STALL_AFTER, heartbeat_late_after=HEARTBEAT_TIMEOUT / 3),
            self.listening_since,
            row.heartbeat_at if row is not None else None,
            newest.ended_at if newest is not None else None,
        )

    def _try(self, job: JobId, event: Callable[[Life], LifeEvent | None]) -> Steps[None]:
        """What does not succeed is tried again at the next tick."""
        try:
            yield from self.use(job, event)
        except (NotLeading, Outage):
            return

    def _reap(self, term: Term) -> Steps[None]:
        """What the real reaper notices; what fails is looked at again at the next tick."""
        units: Any = self.unit_of_work
        launcher: Any = self._launcher
        reaper = Reaper(units, launcher, self.now, HEARTBEAT_TIMEOUT, START_TIMEOUT)
        while self.leads_in(term):
            try:
                yield from running(reaper.run_once())
            except (NotLeading, Outage):
                reaper.failed()
            yield self.scheduler.now + _TICK_MS


def _status(refusal: errors.DomainError) -> int:
    match refusal:
        case errors.NotFound():
            return 404
        case errors.Conflict():
            return 409
        case errors.Unavailable():
            return 503
        case _:
            return 400


@dataclass(frozen=True, slots=True)
class _Told:
    """A step, as the story tells it."""

    before: Life
    event: LifeEvent
    step: Step

    def __str__(self) -> str:
        event: Any = getattr(self.event, "event", self.event)
        before, after = self.before.job.job, self.step.life.job.job
        parts = [type(event).__name__]
        if isinstance(self.event, AttemptNews):
            parts.append(f"of attempt {self.event.attempt}")
        if isinstance(self.event, CheckpointNews):
            parts.append(f"of checkpoint {self.event.checkpoint}")
        if before.status is not after.status:
            parts.append(f"→ job {after.status}")
        if before.attempt != after.attempt:
            parts.append(f"with attempt {after.attempt}")
        if self.step.outcome is not None:
            parts.append(f"→ {self.step.outcome}")
        operation = self.before.operation
        if operation is not None:
            moved = self.step.life.operations[operation.id].operation
            if moved != operation.operation:
                parts.append(f"→ {moved.kind} {moved.status} in phase {moved.phase}")
        if self.step.effects:
            parts.append("→ " + ", ".join(type(one).__name__ for one in self.step.effects))
        return " ".join(parts)
