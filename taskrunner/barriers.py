"""The thread that answers barriers, so that heartbeats and queries continue meanwhile.

It watches the batches of the queries, takes snapshots, sends acks and declines, one after the
other, and reports each result as an event. The attempt's state machine (`taskrunner.core.attempt`)
decides which barriers are answered, and how. A thread of its own publishes held output
(`output_thread`).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from queue import Empty, SimpleQueue
from typing import assert_never

from jobmanager.core.errors import PathNotAllowed
from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId, RegionId
from jobmanager.core.life.checkpoint import AckOutcome
from jobmanager.core.snapshots.manifest import Manifest
from jobmanager.files.locks import LockUnavailable
from jobmanager.protocol.messages import Barrier, BarrierDecline, Stop
from taskrunner import logs
from taskrunner.context_thread import ContextThread
from taskrunner.control.client import (
    CallRefused,
    JobManagerClient,
    NotDelivered,
    RunnerDismissed,
)
from taskrunner.core.acks import acks_of
from taskrunner.core.attempt import events
from taskrunner.core.attempt.events import BatchesOfRegion, Event
from taskrunner.core.attempt.instructions import (
    SendAcks,
    SendDecline,
    ShowOutput,
    StopWatching,
    TakeSnapshot,
    WatchBatches,
)
from taskrunner.core.barrier_clock import BarrierClock
from taskrunner.core.idle_regions import IdleRegions
from taskrunner.output_thread import HeldOutput, OutputSources, OutputThread
from taskrunner.sinks.joiner import BreakOff
from taskrunner.snapshots.fence import Superseded
from taskrunner.snapshots.snapshot import AttemptContext, CheckpointDiscarded, Snapshots, Taken
from taskrunner.snapshots.spark_log import SparkLog
from taskrunner.snapshots.spark_state import MissingState

_LOOK_AGAIN_SECONDS = 0.02
_LEAST_SECONDS = 1.0
"""How long sending is tried at least, for acks that are ready just before their deadline."""
_DECLINE_WITHIN = timedelta(seconds=30)
log = logs.get("barriers")

_Blocking = WatchBatches | StopWatching | TakeSnapshot | SendAcks | SendDecline
BarrierInstruction = _Blocking | ShowOutput


class BrokenOff(Exception):
    """The snapshot is not wanted any more."""


@dataclass(frozen=True, slots=True)
class SnapshotSources:
    """Everything that the snapshots of a prepared attempt need."""

    context: AttemptContext
    snapshots: Snapshots
    logs: Mapping[RegionId, SparkLog]
    is_alive: Callable[[RegionId], bool]
    is_finished: Callable[[RegionId], bool]
    """Whether a region has read all input, and its query has ended."""
    is_idle: Callable[[RegionId], bool]
    """Whether a region's query waits for input."""
    sinks: Mapping[RegionId, Sequence[HeldOutput]]
    """Sinks whose output waits for its checkpoint."""
    checkpointed: Callable[[RegionId, int], None] = lambda region, batch: None
    """Tells a region's sources the batch of a completed checkpoint."""
    covered: Callable[[RegionId, int], None] = lambda region, batch: None
    """Tells a region the batch of a completed checkpoint that a recovery would use."""
    note_restore_point: Callable[[RegionId, int], None] = lambda region, batch: None
    """Tells a region's sinks a batch to which a restore may go back, before it can."""
    join_files: Callable[[RegionId, int, BreakOff], None] = lambda region, batch, break_off: None
    """Joins small files of a region's held output up to a batch."""


class BarrierThread(ContextThread):
    """Carries out the blocking instructions for barriers, in the order in which they were given."""

    def __init__(
        self,
        job: JobId,
        attempt: AttemptNumber,
        client: JobManagerClient,
        tell: Callable[[Event], None],
    ) -> None:
        super().__init__("barriers")
        self._job = job
        self._attempt = attempt
        self._client = client
        self._tell = tell
        self._to_do: SimpleQueue[_Blocking | None] = SimpleQueue()
        self._sources: SnapshotSources | None = None
        self._watched: WatchBatches | None = None
        """The checkpoint for which batches are being watched."""
        self._began_after: dict[RegionId, int | None] = {}
        """The last batch of each region that an earlier attempt committed."""
        self._idle = IdleRegions()
        self._seen: dict[RegionId, BatchesOfRegion] = {}
        self._clock = BarrierClock()
        self._broken_off: set[int] = set()
        """Checkpoints whose snapshots are not wanted any more."""
        self._savepoints: set[int] = set()
        """Checkpoints that are savepoints: no recovery uses them."""
        self._output = OutputThread(tell)

    def can_snapshot(self, sources: SnapshotSources) -> None:
        """Sets the sources of snapshots. Called before the attempt reports `prepared`."""
        self._began_after = {region: log.last_committed() for region, log in sources.logs.items()}
        self._output.can_show(OutputSources(sources.sinks, sources.join_files, self._tell_sources))
        self._sources = sources

    def do(self, instruction: BarrierInstruction) -> None:
        """Any thread may ask for something to be done."""
        if isinstance(instruction, ShowOutput):
            self._output.do(instruction)
        else:
            self._to_do.put(instruction)

    def break_off(self, checkpoint: int) -> None:
        """End the upload of this checkpoint between two files. May be called by any thread."""
        log.info("snapshot_broken_off", checkpoint=checkpoint)
        self._broken_off.add(checkpoint)

    def join_no_more(self) -> None:
        """From now on output is published as it is. May be called by any thread."""
        self._output.join_no_more()

    def end(self, *, waits: bool = True) -> None:
        """Returns when all instructions have been carried out. With `waits=False` it returns at
        once, and the thread ends after the file that it uploads.
        """
        self._to_do.put(None)
        if waits and self.is_alive():
            self.join()
        self._output.end(waits=waits)

    def work(self) -> None:
        self._output.start()
        while True:
            try:
                is_watching = self._watched is not None
                instruction = self._to_do.get(timeout=_LOOK_AGAIN_SECONDS if is_watching else None)
            except Empty:
                self._look()
                continue
            if instruction is None:
                return
            self._carry_out(instruction)

    def _carry_out(self, instruction: _Blocking) -> None:
        match instruction:
            case WatchBatches():
                self._watched, self._seen, self._idle = instruction, {}, IdleRegions()
                self._clock.begin(time.monotonic())
                self._look()
            case StopWatching():
                self._watched = None
            case TakeSnapshot(barrier=barrier):
                self._tell(self._snapshot(barrier))
            case SendAcks():
                self._send_acks(instruction)
            case SendDecline():
                self._send_decline(instruction)
            case _:
                assert_never(instruction)

    @property
    def _site(self) -> SnapshotSources:
        assert self._sources is not None, "nothing is prepared yet"
        return self._sources

    def _look(self) -> None:
        """Reports how far the queries are, if that has changed."""
        watched = self._watched
        assert watched is not None
        try:
            found = {region: self._look_at(region, watched) for region in self._site.logs}
        except Exception as error:
            self._tell(_failed(watched.checkpoint, error))
            self._watched = None
            return
        if found != self._seen:
            self._seen = found
            self._clock.see(found, time.monotonic())
            self._tell(events.BatchesSeen(watched.checkpoint, found))

    def _look_at(self, region: RegionId, watched: WatchBatches) -> BatchesOfRegion:
        before, spark_log = self._seen.get(region), self._site.logs[region]
        begun = spark_log.last_begun() if before is None else before.begun
        # before the log is read: a batch may end now
        is_finished, is_alive = self._site.is_finished(region), self._site.is_alive(region)
        is_idle = watched.awaits_new_batch and self._idle.see(
            region, time.monotonic(), waits=self._site.is_idle(region)
        )
        committed = spark_log.last_committed()
        has_new_batch = is_idle or committed != self._began_after.get(region)
        return BatchesOfRegion(begun, committed, is_alive, is_finished, has_new_batch)

    def _snapshot(self, barrier: Barrier | Stop) -> Event:
        begun = time.monotonic()
        try:
            taken = self._take(barrier)
            times = self._clock.snapshot_taken(begun, time.monotonic())
            return events.SnapshotTaken(
                acks_of(self._site.context.graph, taken.manifest, taken.new_bytes, times)
            )
        except Exception as error:
            return _failed(barrier.checkpoint, error)

    def _take(self, barrier: Barrier | Stop) -> Taken:
        checkpoint = CheckpointNumber(barrier.checkpoint)
        directories = {region: one.directory for region, one in self._site.logs.items()}
        now = datetime.now(UTC)

        def check() -> None:
            if checkpoint in self._broken_off:
                raise BrokenOff("the upload was broken off: the checkpoint is not wanted any more")

        def note(manifest: Manifest) -> None:
            for region, one in manifest.regions.items():
                if one.batch is not None:
                    self._site.note_restore_point(region, one.batch)

        check()
        if barrier.savepoint is None:
            return self._site.snapshots.take(checkpoint, directories, now, check, note)
        self._savepoints.add(barrier.checkpoint)
        target = barrier.savepoint
        return self._site.snapshots.take_savepoint(
            checkpoint,
            directories,
            now,
            target.id,
            target.directory,
            between_files=check,
            before_manifest=note,
        )

    def _send_acks(self, send: SendAcks) -> None:
        checkpoint = send.acks.checkpoint
        left = max(send.deadline - time.monotonic(), _LEAST_SECONDS)
        try:
            reply = self._client.ack(send.acks, within=timedelta(seconds=left))
        except Exception as error:
            self._tell_if_dismissed(error)
            log.warning("acks_not_delivered", checkpoint=checkpoint, reason=str(error))
            self._tell(events.AcksNotDelivered(checkpoint, str(error)))
            return
        log.info("barrier_acked", checkpoint=checkpoint, outcome=reply.outcome)
        self._tell(events.AcksAnswered(checkpoint, AckOutcome(reply.outcome)))

    def _send_decline(self, send: SendDecline) -> None:
        """Declines the barrier, with the reason."""
        checkpoint = send.checkpoint
        log.warning(
            "barrier_declined", checkpoint=checkpoint, reason=send.reason, detail=send.detail
        )
        declined = BarrierDecline(
            job=self._job,
            attempt=self._attempt,
            checkpoint=checkpoint,
            region=send.region,
            reason=send.reason,
            detail=send.detail,
        )
        is_superseded = False
        try:
            reply = self._client.decline(declined, within=_DECLINE_WITHIN)
            is_superseded = reply.outcome == "superseded"
        except Exception as error:
            self._tell_if_dismissed(error)
            log.warning("decline_not_delivered", checkpoint=checkpoint, reason=str(error))
        self._tell(events.DeclineAnswered(checkpoint, is_superseded))

    def _tell_if_dismissed(self, error: Exception) -> None:
        match error:
            case RunnerDismissed():
                self._tell(events.Dismissed(str(error)))
            case NotDelivered() | CallRefused():
                pass
            case _:  # the thread must survive: the next barrier may succeed
                log.error("call_failed", exc_info=error)

    def _tell_sources(self, show: ShowOutput) -> None:
        """Tells the sources of the completed checkpoint; the job does not depend on it."""
        for region in self._site.logs:
            batch = show.batches.get(region)
            if batch is not None:
                if show.checkpoint not in self._savepoints:
                    self._site.covered(region, batch)
                try:
                    self._site.checkpointed(region, batch)
                except Exception as error:
                    log.warning(
                        "source_not_told", region=region, checkpoint=show.checkpoint, exc_info=error
                    )


def _failed(checkpoint: int, error: Exception) -> Event:
    match error:
        case Superseded():
            return events.SnapshotFailed(checkpoint, "superseded", str(error))
        case CheckpointDiscarded() | BrokenOff():
            return events.SnapshotFailed(checkpoint, "no_boundary_in_time", str(error))
        case MissingState() | LockUnavailable() | PathNotAllowed() | OSError():
            return events.SnapshotFailed(checkpoint, "storage", f"{type(error).__name__}: {error}")
        case _:
            log.error("snapshot_failed", checkpoint=checkpoint, exc_info=error)
            return events.SnapshotFailed(checkpoint, "internal", f"{type(error).__name__}: {error}")
