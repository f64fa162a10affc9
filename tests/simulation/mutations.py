"""Deliberate faults in the rules, one at a time, which the simulation has to find.

Most of them change a real pure function of `jobmanager.core` or `taskrunner.core`. If SQL or a file
system, which are simulated, carries out the rule, they change that part of the simulation.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, get_args
from uuid import UUID

from jobmanager.core.errors import JobNotRunning
from jobmanager.core.ids import AttemptNumber, JobId
from jobmanager.core.life import (
    attempt,
    attempt_rules,
    checkpoint,
    checkpoint_rules,
    disposal,
    lease,
    operation_rules,
    request_rules,
)
from jobmanager.core.life.checkpoint import AckOutcome, CheckpointStatus
from jobmanager.core.life.draft import Draft
from jobmanager.core.life.effects import (
    AnnounceCompletion,
    DiscardCheckpoint,
    DisposeSavepoint,
    ForJobManager,
)
from jobmanager.core.life.job import JobStatus
from jobmanager.core.life.savepoint import SavepointStatus
from jobmanager.core.plan import job_plan, key_groups, known_plans
from jobmanager.services import restore_points
from jobmanager.services.ports import runners as runner_port
from taskrunner.core import continuation, restore, sink_records
from taskrunner.core.attempt.barrier_answers import PendingBarrier
from taskrunner.core.attempt.phases import AttemptState
from taskrunner.core.fence_time import FenceTime
from taskrunner.core.restore import FromCheckpoint
from taskrunner.core.sink_records import Recovery
from tests.simulation import snapshots
from tests.simulation.database import Database, OutboxRow
from tests.simulation.jobmanager import JobManagerParty
from tests.simulation.scheduler import Steps
from tests.simulation.sinks import SinkWriter
from tests.simulation.storage import JobStorage, RegionDirectory
from tests.simulation.world import World

_FOR_JOBMANAGER = get_args(ForJobManager)


@dataclass(frozen=True, slots=True)
class Mutation:
    name: str
    where: str
    """The function whose rule is broken."""
    patches: tuple[tuple[Any, str, Any], ...]

    @contextmanager
    def applied(self) -> Iterator[None]:
        with ExitStack() as stack:
            for target, name, value in self.patches:
                stack.enter_context(_patched(target, name, value))
            yield None


@contextmanager
def _patched(target: Any, name: str, value: Any) -> Iterator[None]:
    before = target.__dict__[name]
    setattr(target, name, value)
    try:
        yield None
    finally:
        setattr(target, name, before)


# ── checkpoints ───────────────────────────────────────────────────────────────


def _count_acks(known: Any, event: Any) -> Any:
    """Each ack takes somebody off the awaited ones, whoever it comes from."""
    if event.attempt != known.attempt:
        return checkpoint.CheckpointTransition(known, AckOutcome.SUPERSEDED)
    if known.status is not CheckpointStatus.IN_PROGRESS:
        return checkpoint.CheckpointTransition(known, AckOutcome.TOO_LATE)
    left = dict(list(known.awaiting.items())[len(event.snapshots) :])
    snapshots_so_far = {**known.snapshots, **event.snapshots}
    acked = replace(known, awaiting=left, snapshots=snapshots_so_far, stored=event.stored)
    if left:
        return checkpoint.CheckpointTransition(acked, AckOutcome.RECORDED)
    completed = replace(acked, status=CheckpointStatus.COMPLETED, ended_at=event.at)
    announce = AnnounceCompletion(known.attempt, known.number)
    return checkpoint.CheckpointTransition(completed, AckOutcome.COMPLETED, (announce,))


def _await_old_parallelism(graph: Any, parallelism: int) -> Any:
    return job_plan.awaited(graph, graph.parallelism)


_real_region_manifest = snapshots._region_manifest


def _snapshot_batch_under_way(region: Any, directory: RegionDirectory, prefix: str) -> Any:
    """The batch that has begun counts, with the state before it."""
    begun, committed = directory.last_begun, directory.last_committed
    if begun is None or committed is None or begun == committed:
        return _real_region_manifest(region, directory, prefix)
    ahead = RegionDirectory(dict(directory.offsets), dict(directory.commits))
    ahead.commits[begun] = directory.commits[committed]
    return _real_region_manifest(region, ahead, prefix)


_real_retain = checkpoint_rules._retain


def _retain_without_pins(draft: Draft, completed: Any) -> None:
    pinned = draft.life.pinned
    draft.life = replace(draft.life, pinned=frozenset())
    _real_retain(draft, completed)
    draft.life = replace(draft.life, pinned=pinned)


def _dispose_of_any(savepoint: Any, under_way: Any, users: Any, at: Any) -> Any:
    return replace(savepoint, status=SavepointStatus.DISPOSED, disposed_at=at)


_real_let_go_of_claimed = operation_rules._let_go


def _let_go_of_shared(draft: Draft, point: Any, now: Any) -> None:
    draft.life = replace(draft.life, shares_restore_point=False)
    _real_let_go_of_claimed(draft, point, now)


async def _let_go_of_needed(uow: Any, job_id: JobId, claimed: Any, now: Any) -> Any:
    """Whoever was started from it."""
    async with uow:
        if claimed.checkpoint is not None:
            writer = JobId(UUID(hex=claimed.job))
            await uow.jobs.get_for_update(writer)
            await uow.checkpoints.note_discarded(writer, claimed.checkpoint, now)
            await uow.outbox.add(writer, [DiscardCheckpoint(claimed.checkpoint)], now)
        else:
            await uow.outbox.add(job_id, [DisposeSavepoint(claimed.root)], now)
        await uow.commit()
    return ()


def _discard_every_file(storage: JobStorage, number: Any, was_completed: bool) -> Steps[None]:
    """Without looking whether another checkpoint names the file too."""
    token = yield from storage.pool_lock.acquire()
    try:
        manifest = storage.checkpoints.pop(number, None)
        for file in manifest.files() if manifest else ():
            storage.pool.pop(file.location, None)
        storage.has_lost_files = True
    finally:
        storage.pool_lock.release(token)


# ── who may write ─────────────────────────────────────────────────────────────


def _renew_any_term(held: Any, term: Any, now: Any) -> bool:
    return held.holder is not None


def _check_no_term(database: Database, term: Any) -> None:
    return None


def _check_no_epoch(storage: JobStorage, attempt: AttemptNumber) -> None:
    return None


def _leave_epoch(storage: JobStorage, attempt: AttemptNumber) -> Steps[None]:
    storage.check_epoch(attempt)
    yield None


_real_decide = SinkWriter._decide


def _raise_epoch_and_decide(writer: SinkWriter, batch: int, names: Any) -> Steps[None]:
    writer._storage.epoch = max(writer._storage.epoch, writer._attempt)
    yield from _real_decide(writer, batch, names)


_real_move_attempt = attempt_rules.move_attempt


def _move_current_attempt(draft: Draft, number: AttemptNumber, event: Any) -> None:
    """Whatever attempt the news is of."""
    _real_move_attempt(draft, draft.life.job.job.attempt, event)


_real_attempt_transition = attempt.transition


def _hear_no_silence(known: Any, event: Any) -> Any:
    if isinstance(event, attempt.RunnerWentSilent):
        return attempt.AttemptTransition(known)
    return _real_attempt_transition(known, event)


def _at_rest_at_once(runner: Any) -> None:
    return None


def _go_on_without(fence: FenceTime, now: float) -> None:
    return None


# ── effects ───────────────────────────────────────────────────────────────────

_real_add_to_outbox = Database.add_to_outbox
_real_world_init = World.__init__


def _remember_effects(database: Database, job: JobId, effects: Any) -> None:
    """What is for the JobManager is done after the commit, and is written down nowhere."""
    for effect in effects:
        if not isinstance(effect, _FOR_JOBMANAGER):
            _real_add_to_outbox(database, job, [effect])
            continue
        for jobmanager in _jobmanagers_of(database):
            if jobmanager.is_up and jobmanager.term == database.lease.term:
                row = OutboxRow(0, job, effect, None)
                jobmanager.spawn("effect", _do_once(jobmanager, row))


def _do_once(jobmanager: JobManagerParty, row: OutboxRow) -> Steps[None]:
    yield None
    try:
        yield from jobmanager._carry_out(row)
    except Exception:
        return


def _jobmanagers_of(database: Database) -> list[JobManagerParty]:
    found: list[JobManagerParty] = getattr(database, "jobmanagers", [])
    return found


def _know_jobmanagers(world: World, *arguments: Any, **named: Any) -> None:
    _real_world_init(world, *arguments, **named)
    world.database.jobmanagers = world.jobmanagers  # type: ignore[attr-defined]


_real_forget_entries = JobManagerParty._forget
_real_carry_out = JobManagerParty._carry_out


def _forget_then_carry_out(jobmanager: JobManagerParty, entry: OutboxRow) -> Steps[None]:
    """The note that an effect is done comes before it is."""
    yield from _real_forget_entries(jobmanager, [entry.id])
    yield from _real_carry_out(jobmanager, entry)


# ── operations ────────────────────────────────────────────────────────────────

_real_roll_back = operation_rules._roll_back


def _roll_back_to_nothing(draft: Draft, operation: Any, error: str, now: Any) -> Any:
    go_on = _real_roll_back(draft, operation, error, now)
    draft.change_job(restore_point=None)
    return go_on


def _check_running_only(life: Any) -> None:
    if life.job.job.status is not JobStatus.RUNNING:
        raise JobNotRunning("only a running job takes savepoints")


def _take_as_it_is(life: Any, event: Any) -> Any:
    return event


_real_let_go = operation_rules.follow_checkpoint


def _dispose_at_once(draft: Draft, completed: Any, now: Any) -> None:
    """The savepoint of a change is let go of with any checkpoint, the way back being open."""
    point = draft.life.job.restore_point
    if point is not None and point.claim:
        operation_rules._let_go(draft, point, now)
    _real_let_go(draft, completed, now)


# ── restore and output ────────────────────────────────────────────────────────

_real_from_attempt = restore._from_attempt


def _prefer_checkpoint(previous: Any, completed: Any) -> Any:
    if completed is not None and completed.batch is not None:
        return FromCheckpoint(completed.checkpoint, completed.batch, "a checkpoint is a checkpoint")
    return _real_from_attempt(previous, completed)


def _keep_everything(choice: Any) -> int:
    return 2**31


_real_last_kept = continuation.last_kept


def _keep_all_branches(lineage: Any, others: Any) -> dict[JobId, int]:
    return dict.fromkeys(_real_last_kept(lineage, others), 2**31)


def _never_decided(writer: SinkWriter, batch: int) -> bool:
    return False


_real_stage = SinkWriter._stage


def _stage_by_attempt(writer: SinkWriter, batch: int, rows: Any) -> list[tuple[str, str]]:
    named = []
    for staged, final in _real_stage(writer, batch, rows):
        named.append((staged, f"{writer._attempt}-{final}"))
    return named


def _publish_held(batch: int, state: Any, last_kept: int, last_visible: int | None) -> Recovery:
    return Recovery.WITHDRAW if batch > last_kept else Recovery.PUBLISH


def _prove_at_once(life: Any, completed: Any) -> bool:
    return False


_real_owned = key_groups.owned


def _owned_by_neighbour(layout: Any, subtask: int, parallelism: int, groups: int) -> Any:
    return _real_owned(layout, (subtask + 1) % parallelism, parallelism, groups)


def _mutation(name: str, where: str, *patches: tuple[Any, str, Any]) -> Mutation:
    return Mutation(name, where, patches)


MUTATIONS: tuple[Mutation, ...] = (
    _mutation(
        "acks are counted, not a set",
        "core/life/checkpoint.py `_ack`",
        (checkpoint, "_ack", _count_acks),
    ),
    _mutation(
        "a rescaled job awaits the subtasks it had before",
        "core/plan/known_plans.py `awaited`",
        (known_plans, "awaited", _await_old_parallelism),
    ),
    _mutation(
        "a barrier is acked before the batch is committed",
        "simulated runner, snapshot of a region",
        (snapshots, "_region_manifest", _snapshot_batch_under_way),
    ),
    _mutation(
        "retention deletes a checkpoint that another job starts from",
        "core/life/checkpoint_rules.py `_retain`",
        (checkpoint_rules, "_retain", _retain_without_pins),
    ),
    _mutation(
        "a user may dispose of a savepoint that a job still needs",
        "core/life/disposal.py `disposed`",
        (disposal, "disposed", _dispose_of_any),
    ),
    _mutation(
        "what a job has claimed goes, though a third job was started from it",
        "core/life/operation_rules.py `_let_go`, services/restore_points.py `let_go`",
        (operation_rules, "_let_go", _let_go_of_shared),
        (restore_points, "let_go", _let_go_of_needed),
    ),
    _mutation(
        "a discarded checkpoint takes files along that others name",
        "simulated storage, `discard_checkpoint`",
        (JobStorage, "discard_checkpoint", _discard_every_file),
    ),
    _mutation(
        "the term is not checked at the commit",
        "simulated Postgres, `check_term`",
        (Database, "check_term", _check_no_term),
    ),
    _mutation(
        "a lease is renewed whoever holds it",
        "core/life/lease.py `may_renew`",
        (lease, "may_renew", _renew_any_term),
    ),
    _mutation(
        "the epoch is raised with the first batch, not before reading",
        "simulated runner, `raise_epoch`",
        (JobStorage, "raise_epoch", _leave_epoch),
        (SinkWriter, "_decide", _raise_epoch_and_decide),
    ),
    _mutation(
        "the epoch is not checked when output is published",
        "simulated runner, `check_epoch`",
        (JobStorage, "check_epoch", _check_no_epoch),
    ),
    _mutation(
        "a superseded attempt's report counts for the attempt that runs",
        "core/life/attempt_rules.py `move_attempt`",
        (attempt_rules, "move_attempt", _move_current_attempt),
    ),
    _mutation(
        "a runner's silence is not noticed",
        "core/life/attempt.py `transition`",
        (attempt, "transition", _hear_no_silence),
    ),
    _mutation(
        "a leader goes by the wall clock of its machine",
        "simulated JobManager, `now`",
        (JobManagerParty, "now", JobManagerParty.wall_clock),
    ),
    _mutation(
        "a runner goes on without a JobManager though its sinks cannot be fenced",
        "taskrunner/core/fence_time.py",
        (AttemptState, "may_trespass", False),
        (FenceTime, "check", _go_on_without),
    ),
    _mutation(
        "a runner is replaced while it may still write where nothing can be fenced",
        "core/life/replacement.py `at_rest_at`",
        (runner_port, "at_rest_at", _at_rest_at_once),
    ),
    _mutation(
        "effects are done after the commit, from memory",
        "simulated Postgres, the outbox",
        (Database, "add_to_outbox", _remember_effects),
        (World, "__init__", _know_jobmanagers),
    ),
    _mutation(
        "an effect is forgotten before it is done",
        "simulated JobManager, dispatch",
        (JobManagerParty, "_carry_out", _forget_then_carry_out),
    ),
    _mutation(
        "a roll-back forgets the savepoint",
        "core/life/operation_rules.py `_roll_back`",
        (operation_rules, "_roll_back", _roll_back_to_nothing),
    ),
    _mutation(
        "a second stop is accepted while one is under way",
        "core/life/request_rules.py `_check`",
        (request_rules, "_check", _check_running_only),
    ),
    _mutation(
        "an attempt that dies after its stop's savepoint is restarted",
        "core/life/operation_rules.py `as_stopped`",
        (operation_rules, "as_stopped", _take_as_it_is),
    ),
    _mutation(
        "a change's savepoint goes before the change has proved itself",
        "core/life/operation_rules.py `follow_checkpoint`",
        (operation_rules, "follow_checkpoint", _dispose_at_once),
    ),
    _mutation(
        "restore picks the checkpoint, though an attempt is newer",
        "taskrunner/core/restore.py `_from_attempt`",
        (restore, "_from_attempt", _prefer_checkpoint),
    ),
    _mutation(
        "a restore does not withdraw later output",
        "taskrunner/core/restore.py `last_kept_batch`",
        (restore, "last_kept_batch", _keep_everything),
    ),
    _mutation(
        "a job that goes on with another's output withdraws nothing of it",
        "taskrunner/core/continuation.py `last_kept`",
        (continuation, "last_kept", _keep_all_branches),
    ),
    _mutation(
        "a replayed batch is written again, under a name made of the attempt",
        "simulated runner, files sink",
        (SinkWriter, "is_decided", _never_decided),
        (SinkWriter, "_stage", _stage_by_attempt),
    ),
    _mutation(
        "a restore shows output that waits for its checkpoint",
        "taskrunner/core/sink_records.py `_recovery`",
        (sink_records, "_recovery", _publish_held),
    ),
    _mutation(
        "a savepoint that the job runs on from shows output that waits for a checkpoint",
        "taskrunner/core/attempt/barrier_answers.py `shows_output`",
        (PendingBarrier, "shows_output", True),
    ),
    _mutation(
        "a changed job shows output before it has proved itself",
        "core/life/checkpoint_rules.py `_may_be_rolled_back`",
        (checkpoint_rules, "_may_be_rolled_back", _prove_at_once),
    ),
    _mutation(
        "a job whose input has ended shows output that no checkpoint covers",
        "taskrunner/core/attempt/phases.py `is_complete`",
        (AttemptState, "is_complete", True),
    ),
    _mutation(
        "acks name the key groups of the neighbour",
        "core/plan/key_groups.py `owned`",
        (key_groups, "owned", _owned_by_neighbour),
    ),
)
