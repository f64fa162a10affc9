"""One attempt in a simulated runner: the real state machine decides, these tasks carry out.

As in production there is a task that runs the machine, one that drives Spark, one that answers
barriers, one that shows output, and one for each query. They only carry out the machine's
instructions, and report the results.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, assert_never

from jobmanager.core.graph.sinks import unfenced_sinks
from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId, RegionId, VertexId
from jobmanager.core.life.checkpoint import AckOutcome
from jobmanager.core.progress import RegionProgress, RestoredRegion
from jobmanager.core.snapshots.manifest import Manifest
from jobmanager.protocol import messages
from jobmanager.protocol.messages import BarrierDecline, FailureReport, Run
from taskrunner.core import acks as ack_rules
from taskrunner.core import restore
from taskrunner.core.attempt import events, instructions, machine
from taskrunner.core.attempt.events import Event
from taskrunner.core.attempt.instructions import Instruction
from taskrunner.core.attempt.phases import Ended
from taskrunner.core.fence_time import FenceTime
from taskrunner.core.restore import FromAttempt, FromCheckpoint, FromSavepoint, FromScratch, Restore
from tests.simulation import snapshots
from tests.simulation.network import NotDelivered, Refused
from tests.simulation.scheduler import Signal, Steps, Task
from tests.simulation.sinks import SinkWriter, UnfencedWriter, continue_output
from tests.simulation.snapshots import AttemptContext, Past
from tests.simulation.spark import Query
from tests.simulation.storage import (
    AttemptDirectory,
    CheckpointDiscarded,
    FileGone,
    LockUnavailable,
    SinkFiles,
    Superseded,
)
from tests.simulation.story import brief

if TYPE_CHECKING:
    from tests.simulation.runner import RunnerParty

_FOR_BARRIERS = (
    instructions.WatchBatches,
    instructions.StopWatching,
    instructions.TakeSnapshot,
    instructions.SendAcks,
    instructions.SendDecline,
)
_DECLINE_WITHIN_MS = 30_000


@dataclass(slots=True)
class _Queue:
    waiting: list[Instruction] = field(default_factory=list)
    news: Signal = field(default_factory=Signal)

    def put(self, one: Instruction) -> None:
        self.waiting.append(one)
        self.news.fire()


class AttemptThreads:
    def __init__(
        self,
        runner: "RunnerParty",
        job: JobId,
        number: AttemptNumber,
        run: Run,
        on_end: Callable[["AttemptThreads", bool], None],
    ) -> None:
        self.job = job
        self.number = number
        self.run = run
        self.has_ended = False
        self._runner = runner
        self._world = runner.world
        self._on_end = on_end
        self.context = AttemptContext(job, number, runner.world.simulated_of(job), run.parallelism)
        self.storage = runner.world.storage.of(job)
        self.queries: dict[RegionId, Query] = {}
        self._query_tasks: list[Task] = []
        self._sinks: dict[RegionId, SinkWriter | UnfencedWriter] = {}
        self._restored: dict[RegionId, Restore] = {}
        self._repartitioned: list[messages.RepartitionedRegion] = []
        self._for_spark = _Queue()
        self._for_barriers = _Queue()
        self._for_output = _Queue()
        self._watched: set[int] = set()
        self._broken_off: set[int] = set()
        self._events: list[Event] = []
        self._told = Signal()
        after = None if run.fence_after_ms is None else run.fence_after_ms / 1000
        fence = FenceTime(runner.heard_at, after)
        self._state, self._first = machine.begin(runner.seconds, fence)

    def start(self) -> None:
        name = f"attempt {self.number}"
        self._runner.spawn(f"machine of {name}", self._decide())
        self._runner.spawn(f"spark of {name}", self._drive_spark())
        self._runner.spawn(f"barriers of {name}", self._answer_barriers())
        self._runner.spawn(f"output of {name}", self._show_output())
        self._carry_out(self._first)

    def tell(self, event: Event) -> None:
        """Whatever happens to the attempt goes through here, in the order in which it is said."""
        self._events.append(event)
        self._told.fire()

    def _decide(self) -> Steps[None]:
        """As `taskrunner/attempt_loop.py`: the next event, or the next deadline."""
        while not isinstance(self._state.phase, Ended):
            if not self._events:
                deadline = machine.next_deadline(self._state)
                yield self._told if deadline is None else (self._told, round(deadline * 1000) + 1)
            self._step(events.TimePassed(self._runner.seconds))
            if self._events:
                self._step(self._events.pop(0))
            yield None

    def progress(self) -> list[RegionProgress]:
        """Of each region; none before the queries have started."""
        if not self._query_tasks:
            return []
        return [
            RegionProgress(
                region=region,
                batch=query.directory.last_committed,
                batches=query.batches,
                is_active=query.is_active,
                is_idle=query.is_exhausted and not query.is_active,
            )
            for region, query in self.queries.items()
        ]

    def _step(self, event: Event) -> None:
        self._state, given = machine.step(self._state, event)
        self._carry_out(given)

    def _carry_out(self, given: tuple[Instruction, ...]) -> None:
        for one in given:
            self._runner.note("· {}", _Instructed(one))
            if isinstance(one, instructions.Report):
                self._runner.report(self, one.body)
            elif isinstance(one, instructions.BreakOffSnapshot):
                self._broken_off.add(one.checkpoint)
            elif isinstance(one, instructions.KillProcess):
                self._runner.crash()
            elif isinstance(one, _FOR_BARRIERS):
                self._for_barriers.put(one)
            elif isinstance(one, instructions.ShowOutput):
                self._for_output.put(one)
            else:
                self._for_spark.put(one)

    # ── the task that drives Spark ────────────────────────────────────────────

    def _drive_spark(self) -> Steps[None]:
        while True:
            if not self._for_spark.waiting:
                yield self._for_spark.news
                continue
            match self._for_spark.waiting.pop(0):
                case instructions.Prepare():
                    yield from self._prepare()
                case instructions.StartQueries():
                    self._start_queries()
                case instructions.AskRegionsToStop():
                    self._ask_to_stop()
                case instructions.DrainRegions():
                    self.tell(events.RegionsDrained())
                case instructions.StopRegionsAtOnce():
                    self._stop_at_once()
                    yield None
                    self.tell(events.RegionsStopped())
                case instructions.ShowAllOutput():
                    yield from self._show_all()
                case instructions.End(keeps_runner=keeps_runner):
                    self._stop_at_once()
                    self.has_ended = True
                    self._on_end(self, keeps_runner)
                    return
            yield None

    def _prepare(self) -> Steps[None]:
        if self._world.start_fails():
            failure = _failure("infrastructure", "storage does not answer")
            self.tell(events.PreparationFailed(failure))
            return
        try:
            yield from self._restore_regions()
        except Superseded as error:
            self.tell(events.Replaced(str(error)))
        except (FileGone, LockUnavailable) as error:
            self._world.invariants.restore_failed(self, error)
            self.tell(events.PreparationFailed(_failure("infrastructure", str(error))))

    def _restore_regions(self) -> Steps[None]:
        yield from self.storage.raise_epoch(self.number)
        self.storage.reading = max(self.storage.reading, self.number)
        past = self._past()
        directory = self.storage.attempts.setdefault(self.number, AttemptDirectory())
        for region in self.context.simulated.regions:
            if self._for_spark.waiting:
                return  # something came that goes first
            choice = snapshots.choose(self.storage, self.number, past, region.id)
            draft = snapshots.cloned(
                self.storage, past, region.id, choice, self.context.parallelism
            )
            self._world.invariants.restored(self, region.id, choice, draft)
            yield None
            directory.origins[region.id] = choice
            yield None
            sink = self._sink(region.id)
            if isinstance(choice, FromSavepoint | FromScratch):
                yield from self._continue_output(region.sinks[0], past)
            visible = self._last_visible(region.id, choice, past)
            yield from sink.recover(restore.last_kept_batch(choice), visible)
            directory.regions[region.id] = draft
            self._sinks[region.id], self._restored[region.id] = sink, choice
            self.queries[region.id] = self._query(region.id)
            yield None
        regions = tuple(region.id for region in self.context.simulated.regions)
        unfenced = tuple(one.id for one in unfenced_sinks(self.context.simulated.graph.vertices))
        holds_output = self.context.simulated.variant.is_held and not unfenced
        repartitioned = tuple(self._repartitioned)
        self.tell(events.Prepared(regions, True, repartitioned, unfenced, holds_output))

    def _past(self) -> Past:
        run = self.run
        completed = None
        if run.checkpoint is not None:
            completed = self.storage.checkpoints.get(CheckpointNumber(run.checkpoint.number))
            if completed is None:
                raise FileGone(f"the manifest of checkpoint {run.checkpoint.number} is not there")
        past = Past(completed, None, {}, "", AttemptNumber(run.base_attempt))
        regions = [region.id for region in self.context.simulated.regions]
        if run.restore_point is None or not any(
            snapshots.wants_origin(self.storage, self.number, past, region) for region in regions
        ):
            return past
        manifest, files = self._world.open_restore_point(run.restore_point)
        if manifest.job != self.job or manifest.savepoint is not None:
            ancestors = tuple(one for one in manifest.lineage if one.job != self.job)
            self.storage.lineage = ancestors
        return replace(past, saved=manifest, saved_files=files, saved_name=run.restore_point.name)

    def _continue_output(self, sink: VertexId, past: Past) -> Steps[None]:
        origin = past.saved
        if sink not in self.storage.sinks:
            return
        if origin is not None and origin.job != self.job:
            yield from continue_output(self._world.storage, self.storage, sink, origin.lineage)

    def _sink(self, region: RegionId) -> SinkWriter | UnfencedWriter:
        sink = next(one.sinks[0] for one in self.context.simulated.regions if one.id == region)
        if self.context.simulated.variant.is_unfenced:
            return UnfencedWriter(
                self.storage,
                self.number,
                lambda: self._state.fence.check(self._runner.seconds),
                lambda: (
                    self._world.scheduler.now + (1000, 0, 250, 8000)[self._world.choices.below(4)]
                ),
            )
        is_held = self.context.simulated.variant.is_held
        files = self.storage.sinks.setdefault(sink, SinkFiles(self.job, sink, is_held))
        return SinkWriter(self.storage, files, self.number)

    def _last_visible(self, region: RegionId, choice: Restore, past: Past) -> int | None:
        """As `taskrunner/spark/state/restoring.py`."""
        if isinstance(choice, FromSavepoint):
            return choice.batch
        known = past.completed.regions.get(region) if past.completed else None
        return known.batch if known else None

    def _query(self, region: RegionId) -> Query:
        return Query(
            region,
            self.storage.attempts[self.number].regions[region],
            self._sinks[region],
            self.context.parallelism,
            self._world.last_row_of(self.job),
            self._world.scheduler,
            self._world.choices,
            self._runner.note,
            f"{self.job.hex[:2]}-{region}-{self.number}",
        )

    def _start_queries(self) -> None:
        if self._world.start_fails():
            self.tell(events.StartFailed(_failure("infrastructure", "no query could be started")))
            return
        for query in self.queries.values():
            task = self._runner.spawn(f"query {query.region}", self._run_query(query))
            self._query_tasks.append(task)
        self.tell(events.AllQueriesStarted(tuple(map(_restored, self._restored.items()))))

    def _run_query(self, query: Query) -> Steps[None]:
        yield from query.run()
        self._query_ended(query)

    def _query_ended(self, query: Query) -> None:
        if isinstance(query.error, Superseded):
            self.tell(events.Replaced(str(query.error)))
        elif query.error is not None:
            failure = _failure("user_code", str(query.error), query.region)
            self.tell(events.QueryFailed(query.region, failure))
        elif query.is_asked_to_stop:
            self.tell(events.QueryEnded(query.region))
        else:
            self.tell(events.QueryFinished(query.region))

    def _ask_to_stop(self) -> None:
        if self._world.faults.stops_at_once:
            for region in self.queries:
                self.tell(events.QueryCannotStop(region))
            return
        for query in list(self.queries.values()):
            has_ended = not query.is_active
            query.ask_to_stop()
            if has_ended:
                self._query_ended(query)

    def _stop_at_once(self) -> None:
        for task in self._query_tasks:
            task.end()
        for query in self.queries.values():
            query.is_active = False

    def _show_all(self) -> Steps[None]:
        try:
            for sink in self._sinks.values():
                yield from sink.show_at_end()
        except Superseded as error:
            self.tell(events.Replaced(str(error)))
        else:
            self.tell(events.AllOutputShown())

    # ── the task that answers barriers ────────────────────────────────────────

    def _answer_barriers(self) -> Steps[None]:
        while not self.has_ended:
            if not self._for_barriers.waiting:
                yield self._for_barriers.news
                continue
            one = self._for_barriers.waiting.pop(0)
            match one:
                case instructions.WatchBatches(checkpoint=checkpoint):
                    self._watched.add(checkpoint)
                    self._runner.spawn("watching batches", self._watch(checkpoint))
                case instructions.StopWatching(checkpoint=checkpoint):
                    self._watched.discard(checkpoint)
                case instructions.TakeSnapshot(barrier=barrier):
                    yield from self._take(barrier)
                case instructions.SendAcks(acks=acks, deadline=deadline):
                    yield from self._send_acks(acks, deadline)
                case instructions.SendDecline():
                    yield from self._send_decline(one)
                case _:
                    raise AssertionError(one)
            yield None

    def _watch(self, checkpoint: int) -> Steps[None]:
        said = None
        while checkpoint in self._watched and not self.has_ended:
            seen = {
                region: events.BatchesOfRegion(
                    query.directory.last_begun,
                    query.directory.last_committed,
                    query.is_active,
                    has_new_batch=query.batches > 0 or query.is_exhausted,
                )
                for region, query in self.queries.items()
            }
            if seen != said:
                said = seen
                self.tell(events.BatchesSeen(checkpoint, seen))
            yield self._world.scheduler.now + 200

    def _take(self, barrier: messages.Barrier | messages.Stop) -> Steps[None]:
        number, at = CheckpointNumber(barrier.checkpoint), self._runner.wall_clock()

        def check() -> None:
            if number in self._broken_off:
                raise CheckpointDiscarded("broken off")

        try:
            if self._world.storage_fails():
                raise LockUnavailable("storage does not answer")
            if barrier.savepoint is None:
                manifest = yield from snapshots.take(
                    self.context, self.storage, number, at, check, self._note_restore_point
                )
            else:
                target = barrier.savepoint
                manifest = yield from snapshots.take_savepoint(
                    self.context,
                    self._world.storage,
                    number,
                    at,
                    target.id,
                    target.directory,
                    self._note_restore_point,
                )
        except Superseded as error:
            failed = events.SnapshotFailed(barrier.checkpoint, "superseded", str(error))
            self.tell(failed)
        except CheckpointDiscarded as error:
            late = events.SnapshotFailed(barrier.checkpoint, "no_boundary_in_time", str(error))
            self.tell(late)
        except (LockUnavailable, FileExistsError) as error:
            self.tell(events.SnapshotFailed(barrier.checkpoint, "storage", str(error)))
        else:
            graph = self.context.simulated.graph
            self.tell(events.SnapshotTaken(ack_rules.acks_of(graph, manifest, 1)))

    def _send_acks(self, acks: messages.BarrierAcks, deadline: float) -> Steps[None]:
        self._world.invariants.acks_sent(self, acks)
        outcome = AckOutcome.RECORDED
        try:
            for part in self._parts(acks):
                reply = yield from self._runner.ask(part, round(deadline * 1000))
                outcome = AckOutcome(reply.outcome)
        except (NotDelivered, Refused) as error:
            self.tell(events.AcksNotDelivered(acks.checkpoint, str(error)))
        else:
            self.tell(events.AcksAnswered(acks.checkpoint, outcome))

    def _parts(self, acks: messages.BarrierAcks) -> list[messages.BarrierAcks]:
        """The acks as our runners send them, in one message; or in two, which the protocol
        allows, and which a JobManager has to bear.
        """
        if not self._world.choices.one_in(self._world.faults.split_acks):
            return [acks]
        half = len(acks.acks) // 2
        return [
            acks.model_copy(update={"acks": some}) for some in (acks.acks[:half], acks.acks[half:])
        ]

    def _send_decline(self, one: instructions.SendDecline) -> Steps[None]:
        declined = BarrierDecline(
            job=self.job,
            attempt=self.number,
            checkpoint=one.checkpoint,
            region=one.region,
            reason=one.reason,
            detail=one.detail,
        )
        is_superseded = False
        try:
            until = self._world.scheduler.now + _DECLINE_WITHIN_MS
            reply = yield from self._runner.ask(declined, until)
            is_superseded = reply.outcome == "superseded"
        except (NotDelivered, Refused):
            pass
        self.tell(events.DeclineAnswered(one.checkpoint, is_superseded))

    def _note_restore_point(self, manifest: Manifest) -> None:
        for region, one in manifest.regions.items():
            if one.batch is not None:
                self._sinks[region].note_restore_point(one.batch)

    # ── the task that shows output ────────────────────────────────────────────

    def _show_output(self) -> Steps[None]:
        while not self.has_ended:
            if not self._for_output.waiting:
                yield self._for_output.news
                continue
            one = self._for_output.waiting.pop(0)
            assert isinstance(one, instructions.ShowOutput)
            yield from self._show(one)
            yield None

    def _show(self, one: instructions.ShowOutput) -> Steps[None]:
        try:
            if self.context.simulated.variant.is_held:
                for region, batch in one.batches.items():
                    if batch is not None:
                        yield from self._sinks[RegionId(region)].show_up_to(batch)
        except Superseded as error:
            self.tell(events.OutputNotShown(one.checkpoint, str(error)))
            self.tell(events.Replaced(str(error)))
        else:
            self.tell(events.OutputShown(one.checkpoint))


@dataclass(frozen=True, slots=True)
class _Instructed:
    """An instruction, as the story tells it."""

    given: Instruction

    def __str__(self) -> str:
        match self.given:
            case instructions.Report(body=body):
                return f"Report {brief(body)}"
            case instructions.TakeSnapshot(barrier=barrier):
                return f"TakeSnapshot for {brief(barrier)}"
            case instructions.SendAcks(acks=acks):
                return f"SendAcks: {brief(acks)}"
            case instructions.SendDecline() | instructions.ShowOutput():
                return f"{type(self.given).__name__} of checkpoint {self.given.checkpoint}"
            case _:
                return type(self.given).__name__


def _failure(kind: str, message: str, region: str | None = None) -> FailureReport:
    return FailureReport.model_validate(
        {
            "kind": kind,
            "is_restartable": True,
            "message": message,
            "stack": "",
            "region": region,
        }
    )


def _restored(found: tuple[RegionId, Restore]) -> RestoredRegion:
    region, choice = found
    batch = restore.batch_of(choice)
    match choice:
        case FromScratch(why=why):
            return RestoredRegion(region=region, origin="scratch", batch=None, source=None, why=why)
        case FromAttempt(attempt=source, why=why):
            return RestoredRegion(
                region=region, origin="attempt", batch=batch, source=source, why=why
            )
        case FromCheckpoint(checkpoint=number, why=why):
            return RestoredRegion(
                region=region, origin="checkpoint", batch=batch, source=number, why=why
            )
        case FromSavepoint(why=why):
            return RestoredRegion(
                region=region, origin="savepoint", batch=batch, source=None, why=why
            )
        case _:
            assert_never(choice)
