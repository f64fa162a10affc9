"""A simulated Postgres: rows, row locks, atomic transactions, the lease.

A transaction of a JobManager commits only in the term in which it began, by the database's own
clock, and only if it was not idle for too long. A crash before the commit changes nothing, a crash
after it does not undo anything, and the answer to a commit can be lost.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import get_args

from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId, RunnerId
from jobmanager.core.life import lease as leases
from jobmanager.core.life import retention
from jobmanager.core.life.checkpoint import CheckpointStatus
from jobmanager.core.life.draft import Life, Step, is_under_way
from jobmanager.core.life.effects import (
    DisposeSavepoint,
    Effect,
    ForJobManager,
)
from jobmanager.core.life.events import LifeEvent
from jobmanager.core.life.lease import Candidate, Lease, Term
from jobmanager.core.life.records import Savepoint, StoredJob
from jobmanager.core.progress import RegionProgress
from jobmanager.services.ports.lives import SpokenOf
from jobmanager.services.ports.runners import Runner
from tests.simulation.choices import Choices
from tests.simulation.scheduler import Scheduler, Signal, Steps

EPOCH = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
_MOST_IDLE_MS = 4_000
"""As `jobmanager.store.database`."""
_FOR_JOBMANAGER = get_args(ForJobManager)


class NotLeading(Exception):
    """The term of the transaction is over: nothing was written."""


class Outage(Exception):
    """The connection broke: nobody knows whether the commit was done."""


@dataclass(frozen=True, slots=True)
class OutboxRow:
    id: int
    job_id: JobId
    effect: Effect
    attempt: AttemptNumber | None

    @property
    def is_for_jobmanager(self) -> bool:
        return isinstance(self.effect, _FOR_JOBMANAGER)


class Database:
    def __init__(self, scheduler: Scheduler, choices: Choices) -> None:
        self._scheduler = scheduler
        self._choices = choices
        self._last_entry = 0
        self.clock_offset_ms = 0
        self.one_in_outages = 0
        self.lease = Lease(Term(0), None, None, EPOCH)
        self.lives: dict[JobId, Life] = {}
        self.runners: dict[RunnerId, Runner] = {}
        self.attempt_tokens: dict[tuple[JobId, AttemptNumber], str] = {}
        """Hashes of them."""
        self.outbox: dict[int, OutboxRow] = {}
        self.tries: dict[int, int] = {}
        """Of entries of the outbox that could not be carried out."""
        self.changed: set[JobId] = set()
        """Jobs that changed since the invariants were last checked."""
        self.on_step: Callable[[Life | None, LifeEvent | None, Step], None] = (
            lambda before, event, step: None
        )
        """Told of each step of a life that was committed."""
        self.on_commit: Callable[[Term | None], None] = lambda term: None
        """Told the term of each commit, before anything is written."""
        self._locks: dict[JobId, _RowLock] = {}
        self.open: dict[Transaction, None] = {}
        """Transactions that have locks."""
        self.news: dict[JobId, Signal] = {}
        """Fires after a commit that has something for the job's runner."""
        self.outbox_news = Signal()

    def now(self) -> datetime:
        return EPOCH + timedelta(milliseconds=self._scheduler.now + self.clock_offset_ms)

    # ── the lease ─────────────────────────────────────────────────────────────

    def take_lease(self, candidate: Candidate, seen: Term, duration: timedelta) -> Term | None:
        now = self.now()
        if self.lease.term != seen or not leases.may_take(self.lease, candidate, now):
            return None
        self.lease = leases.taken(self.lease, candidate, now, duration)
        return self.lease.term

    def renew_lease(self, term: Term, duration: timedelta) -> bool:
        now = self.now()
        if not leases.may_renew(self.lease, term, now):
            return False
        self.lease = leases.renewed(self.lease, now, duration)
        return True

    def check_term(self, term: Term | None) -> None:
        """As `jobmanager.store.leases.check_term`."""
        if term is None or not leases.may_renew(self.lease, term, self.now()):
            raise NotLeading

    # ── transactions ──────────────────────────────────────────────────────────

    def begin(self, term: Term | None) -> "Transaction":
        if term is None:
            raise NotLeading
        return Transaction(self, term)

    def lock_of(self, job: JobId) -> "_RowLock":
        found = self._locks.get(job)
        if found is None:
            found = self._locks[job] = _RowLock(self._scheduler)
        return found

    def load(self, job: JobId) -> Life:
        """The life of a job, with what the rows of runners and of other jobs say."""
        life = self.lives[job]
        runner = self.runner_of(job, life.job.job.attempt)
        pinned, shares = frozenset[CheckpointNumber](), False
        if len(self.lives) > 1:
            in_need = self._in_need()
            pinned = retention.pinned(job, in_need)
            shares = _shares_restore_point(life.job, in_need)
            life = self._with_claimed_savepoint(life)
        return replace(
            life,
            has_live_runner=runner is not None and runner.exited_at is None,
            pinned=pinned,
            shares_restore_point=shares,
        )

    def runner_of(self, job: JobId, attempt: AttemptNumber) -> Runner | None:
        for row in self.runners.values():
            if row.job_id == job and row.attempt == attempt:
                return row
        return None

    def mailbox(self, job: JobId, attempt: AttemptNumber) -> list[OutboxRow]:
        return [
            row
            for row in self.outbox.values()
            if row.job_id == job and row.attempt == attempt and not row.is_for_jobmanager
        ]

    def _in_need(self) -> list[StoredJob]:
        """The jobs that still need what they were started from."""
        return [
            life.job
            for life in self.lives.values()
            if life.job.restore_point is not None
            and retention.needs_restore_point(life.job, life.checkpoints.values())
        ]

    def _with_claimed_savepoint(self, life: Life) -> Life:
        """A savepoint that the job was started from and has claimed is another job's row."""
        point = life.job.restore_point
        if point is None or not point.claim or point.savepoint is None:
            return life
        found = {
            saved.id: saved
            for other in self.lives.values()
            for saved in other.savepoints.values()
            if saved.directory == point.root
        }
        return replace(life, savepoints={**found, **life.savepoints})

    def write_life(self, life: Life) -> None:
        """Each savepoint goes to the job that has taken it."""
        job = life.job.id
        foreign = [saved for saved in life.savepoints.values() if saved.job_id != job]
        for saved in foreign:
            assert saved.job_id is not None
            other = self.lives[saved.job_id]
            savepoints = {**other.savepoints, saved.id: saved}
            self.lives[saved.job_id] = replace(other, savepoints=savepoints)
        if foreign:
            mine = {id: one for id, one in life.savepoints.items() if one.job_id == job}
            life = replace(life, savepoints=mine)
        self.lives[job] = life

    def started_from(self, directory: str) -> list[JobId]:
        """The jobs that were started from the savepoint there, and still need it."""
        return [
            job.id
            for job in self._in_need()
            if job.restore_point is not None and job.restore_point.root == directory
        ]

    def started_from_checkpoint(self, job: JobId, checkpoint: CheckpointNumber) -> list[JobId]:
        """The jobs that were started from this checkpoint, and still need it."""
        return [one.id for one in self._in_need() if checkpoint in retention.pinned(job, [one])]

    def write_savepoint(self, job: JobId, saved: Savepoint) -> None:
        life = self.lives[job]
        self.lives[job] = replace(life, savepoints={**life.savepoints, saved.id: saved})

    def write_disposal(self, job: JobId, gone: Savepoint) -> None:
        self.write_savepoint(job, gone)
        self.add_to_outbox(job, [DisposeSavepoint(gone.directory)])

    def note_discarded(self, job: JobId, number: CheckpointNumber) -> None:
        life = self.lives[job]
        kept = tuple(one for one in life.restorable if one != number)
        self.lives[job] = replace(life, restorable=kept)

    def restart(self) -> None:
        """Every session ends, and with it what was under way."""
        for transaction in list(self.open):
            transaction.break_off()

    def add_to_outbox(self, job: JobId, effects: Iterable[Effect]) -> None:
        for effect in effects:
            self._last_entry += 1
            attempt = getattr(effect, "attempt", None)
            self.outbox[self._last_entry] = OutboxRow(self._last_entry, job, effect, attempt)

    def forget(self, job: JobId, attempt: AttemptNumber) -> None:
        for row in self.mailbox(job, attempt):
            del self.outbox[row.id]

    def note_heartbeat(
        self,
        runner: RunnerId,
        attempt: AttemptNumber,
        at: datetime,
        regions: Sequence[RegionProgress] | None,
    ) -> None:
        row = self.runners[runner]
        self.runners[runner] = replace(row, heartbeat_at=at)
        if regions is not None:
            life = self.lives[row.job_id]
            noted = replace(life.attempts[attempt], progress=regions, progress_at=at)
            self.lives[row.job_id] = replace(life, attempts={**life.attempts, attempt: noted})

    def wake(self, job: JobId) -> None:
        self.outbox_news.fire()
        if (signal := self.news.get(job)) is not None:
            signal.fire()

    def listen(self, job: JobId) -> Signal:
        return self.news.setdefault(job, Signal())


def _shares_restore_point(stored: StoredJob, in_need: list[StoredJob]) -> bool:
    """As the store's query: another job that still needs it was started from the same."""
    point = stored.restore_point
    return point is not None and any(
        other.id != stored.id
        and other.restore_point is not None
        and other.restore_point.root == point.root
        and other.restore_point.checkpoint == point.checkpoint
        for other in in_need
    )


class _RowLock:
    """`SELECT … FOR UPDATE` of one job. A session that is idle for too long loses it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.holder: Transaction | None = None
        self.freed = Signal()

    def acquire(self, transaction: "Transaction") -> Steps[None]:
        while self.holder is not None:
            idle_until = self.holder.active_at + _MOST_IDLE_MS
            if self._scheduler.now >= idle_until:
                self.holder.break_off()
            else:
                yield self.freed, idle_until
        self.holder = transaction


class Transaction:
    def __init__(self, database: Database, term: Term) -> None:
        self.database = database
        self._scheduler = database._scheduler
        self._term = term
        self._locked: list[_RowLock] = []
        self._writes: list[Callable[[], None]] = []
        self._jobs: list[JobId] = []
        self._is_broken = False
        self._has_news = False
        self.active_at = self._scheduler.now

    def lock(self, job: JobId) -> Steps[None]:
        lock = self.database.lock_of(job)
        if lock.holder is self:
            return
        yield from lock.acquire(self)
        self._locked.append(lock)
        self.database.open[self] = None
        self.active_at = self._scheduler.now

    def save(self, before: Life | None, event: LifeEvent | None, step: Step) -> None:
        """The life as it is after a step. `before` has what was not loaded for it, too."""
        self._jobs.append(step.life.job.id)
        self._writes.append(lambda: self._write(before, event, step))

    def write(
        self, change: Callable[[], None], job: JobId | None = None, *, is_news: bool = False
    ) -> None:
        self._has_news |= is_news
        if job is not None:
            self._jobs.append(job)
        self._writes.append(change)

    def commit(self) -> None:
        """Raises `NotLeading` or `Outage`."""
        database = self.database
        if self._is_broken or self._scheduler.now > self.active_at + _MOST_IDLE_MS:
            raise Outage("the session was idle for too long")
        is_broken = database._choices.one_in(database.one_in_outages)
        if is_broken and database._choices.below(2) == 0:
            raise Outage("the connection broke before the commit")
        database.check_term(self._term)
        database.on_commit(self._term)
        for write in self._writes:
            write()
        database.changed.update(self._jobs)
        if is_broken:
            raise Outage("the answer to the commit was lost")
        for job in self._jobs if self._has_news else ():
            database.wake(job)

    def close(self) -> None:
        """Rolls back what was not committed, and lets go of the locks."""
        for lock in self._locked:
            if lock.holder is self:
                lock.holder = None
                lock.freed.fire()
        self._locked = []
        self.database.open.pop(self, None)

    def break_off(self) -> None:
        self._is_broken = True
        self.close()

    def _write(self, before: Life | None, event: LifeEvent | None, step: Step) -> None:
        database, job = self.database, step.life.job.id
        saved = step if before is None else whole(before, step)
        database.write_life(_with_progress(saved.life, before, database.lives.get(job)))
        database.on_step(before, event, saved)


def _with_progress(life: Life, before: Life | None, current: Life | None) -> Life:
    """Heartbeats write the progress of an attempt without the job's lock: a transaction that
    has not changed it does not write it either.
    """
    if before is None or current is None:
        return life
    number = before.job.job.attempt
    known, mine = current.attempts[number], life.attempts[number]
    if known.progress is before.attempts[number].progress or mine.progress is known.progress:
        return life
    if mine.progress is not before.attempts[number].progress:
        return life
    noted = replace(mine, progress=known.progress, progress_at=known.progress_at)
    return replace(life, attempts={**life.attempts, number: noted})


def loaded(life: Life, spoken_of: SpokenOf) -> Life:
    """As much of a life as the store loads: what is under way, and what the event speaks of."""
    newest = life.job.job.attempt
    operations = {id: one for id, one in life.operations.items() if is_under_way(one)}
    checkpoints = {
        number: one
        for number, one in life.checkpoints.items()
        if one.status is CheckpointStatus.IN_PROGRESS or number == spoken_of.checkpoint
    }
    wanted = {one.savepoint_id for one in operations.values()}
    point = life.job.restore_point
    savepoints = {
        id: one
        for id, one in life.savepoints.items()
        if id in wanted
        or one.checkpoint in checkpoints
        or (point is not None and point.claim and one.directory == point.root)
    }
    attempts = {
        number: one
        for number, one in life.attempts.items()
        if number in (newest, spoken_of.attempt)
    }
    return replace(
        life,
        attempts=attempts,
        operations=operations,
        savepoints=savepoints,
        checkpoints=checkpoints,
    )


def whole(before: Life, step: Step) -> Step:
    """The step, with what was not loaded for it."""
    after = step.life
    life = replace(
        after,
        attempts={**before.attempts, **after.attempts},
        operations={**before.operations, **after.operations},
        savepoints={**before.savepoints, **after.savepoints},
        checkpoints={**before.checkpoints, **after.checkpoints},
    )
    return step._replace(life=life)
