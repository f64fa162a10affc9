"""The thread that answers barriers, so that heartbeats and queries go on meanwhile.

A barrier is met by the next batch boundary of every region: the commit of the batch
under way, or the last one where none is. The queries are not paused.
"""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from queue import SimpleQueue
from threading import Thread
from typing import assert_never

from jobmanager.core.ids import CheckpointNumber, RegionId
from jobmanager.protocol.messages import (
    Barrier,
    BarrierAcks,
    BarrierDeclined,
    BarrierReply,
    CheckpointAborted,
    CheckpointCompleted,
    DeclineReason,
)
from taskrunner import logs
from taskrunner.control.client import (
    CallRefused,
    JobManagerClient,
    NotDelivered,
    RunnerDismissed,
)
from taskrunner.core.acks import acks_of
from taskrunner.core.orders import Dismissed, Order, Replaced
from taskrunner.sinks.directory import SinkDirectory
from taskrunner.snapshots.clone import DamagedCheckpoint, read_manifest
from taskrunner.snapshots.fence import Superseded
from taskrunner.snapshots.layout import JobLayout
from taskrunner.snapshots.locks import LockUnavailable
from taskrunner.snapshots.snapshot import Snapshots, StateMismatch, Subject
from taskrunner.snapshots.spark_log import SparkLog, UnreadableSparkLog
from taskrunner.snapshots.spark_state import MissingState

_POLL_SECONDS = 0.02
_DECLINE_WITHIN = timedelta(seconds=30)
log = logs.get("barriers")

Told = Barrier | CheckpointCompleted | CheckpointAborted


class NoBoundary(Exception):
    """A barrier that will not be met: it expired, was aborted, or a region has ended."""

    def __init__(self, reason: DeclineReason, detail: str, region: str | None = None) -> None:
        self.reason: DeclineReason = reason
        self.region = region
        super().__init__(detail)


class BarrierThread(Thread):
    """Answers the barriers of one attempt, one after the other."""

    def __init__(
        self,
        subject: Subject,
        layout: JobLayout,
        snapshots: Snapshots,
        logs_by_region: Mapping[RegionId, SparkLog],
        is_alive: Callable[[RegionId], bool],
        sinks: Mapping[RegionId, SinkDirectory],
        client: JobManagerClient,
        order: Callable[[Order], None],
    ) -> None:
        super().__init__(name="barriers", daemon=True)
        self._subject = subject
        self._layout = layout
        self._snapshots = snapshots
        self._logs = logs_by_region
        self._is_alive = is_alive
        self._sinks = sinks
        self._client = client
        self._order = order
        self._told: SimpleQueue[Told | None] = SimpleQueue()
        self._aborted: set[int] = set()
        self._is_ending = False

    def tell(self, body: Told) -> None:
        if isinstance(body, CheckpointAborted):
            self._aborted.add(body.checkpoint)  # a barrier that waits is to see it
        self._told.put(body)

    def end(self) -> None:
        """No barrier is answered after this; waits for the one under way."""
        self._is_ending = True
        self._told.put(None)
        if self.is_alive():
            self.join()

    def run(self) -> None:
        while (body := self._told.get()) is not None:
            try:
                match body:
                    case Barrier():
                        self._answer(body)
                    case CheckpointCompleted():
                        self._show(body)
                    case CheckpointAborted():
                        log.info("checkpoint_aborted", checkpoint=body.checkpoint)
                    case _:
                        assert_never(body)
            except Superseded as error:
                self._order(Replaced(str(error)))
            except RunnerDismissed as error:
                self._order(Dismissed(str(error)))
            except Exception as error:  # the thread must live: the next barrier may succeed
                log.error("barrier_failed", directive=body.kind, exc_info=error)

    def _answer(self, barrier: Barrier) -> None:
        checkpoint = CheckpointNumber(barrier.checkpoint)
        try:
            self._await_boundaries(barrier)
            directories = {region: one.directory for region, one in self._logs.items()}
            taken = self._snapshots.take(checkpoint, directories, datetime.now(UTC))
        except NoBoundary as error:
            self._decline(barrier, error.reason, str(error), error.region)
            return
        except Superseded as error:
            self._decline(barrier, "superseded", str(error))
            raise
        except (MissingState, LockUnavailable, OSError) as error:
            self._decline(barrier, "storage", f"{type(error).__name__}: {error}")
            return
        except (StateMismatch, UnreadableSparkLog, ValueError) as error:
            self._decline(barrier, "internal", f"{type(error).__name__}: {error}")
            return
        self._send(acks_of(self._subject.graph, taken.manifest, taken.new_bytes), barrier)

    def _await_boundaries(self, barrier: Barrier) -> None:
        """Returns when every region has committed the batch it was in. Raises `NoBoundary`."""
        begun = {region: one.last_begun() for region, one in self._logs.items()}
        waiting = list(begun)
        while waiting:
            self._check(barrier)
            for region in list(waiting):
                if _reached(begun[region], self._logs[region].last_committed()):
                    waiting.remove(region)
                elif not self._is_alive(region):
                    raise NoBoundary("not_running", "the query has ended in a batch", region)
            if waiting:
                time.sleep(_POLL_SECONDS)

    def _check(self, barrier: Barrier) -> None:
        if self._is_ending:
            raise NoBoundary("not_running", "the attempt is ending")
        if barrier.checkpoint in self._aborted:
            raise NoBoundary("no_boundary_in_time", "the checkpoint was aborted")
        if datetime.now(UTC) >= barrier.expires_at:
            raise NoBoundary("no_boundary_in_time", "a batch took longer than the checkpoint may")

    def _send(self, acks: BarrierAcks, barrier: Barrier) -> None:
        left = max(barrier.expires_at - datetime.now(UTC), timedelta(seconds=1))
        try:
            reply = self._client.ack(acks, within=left)
        except (NotDelivered, CallRefused) as error:
            log.warning("acks_not_delivered", checkpoint=acks.checkpoint, reason=str(error))
            return
        log.info("barrier_acked", checkpoint=acks.checkpoint, outcome=reply.outcome)
        self._heed(reply)

    def _decline(
        self, barrier: Barrier, reason: DeclineReason, detail: str, region: str | None = None
    ) -> None:
        log.warning("barrier_declined", checkpoint=barrier.checkpoint, reason=reason, detail=detail)
        declined = BarrierDeclined(
            job=self._subject.job,
            attempt=self._subject.attempt,
            checkpoint=barrier.checkpoint,
            region=region,
            reason=reason,
            detail=detail,
        )
        try:
            self._heed(self._client.decline(declined, within=_DECLINE_WITHIN))
        except (NotDelivered, CallRefused) as error:
            log.warning("decline_not_delivered", checkpoint=barrier.checkpoint, reason=str(error))

    def _heed(self, reply: BarrierReply) -> None:
        if reply.outcome == "superseded":
            self._order(Replaced("the JobManager says so"))

    def _show(self, completed: CheckpointCompleted) -> None:
        """Makes visible what was held back for this checkpoint."""
        if not self._sinks:
            return
        try:
            manifest = read_manifest(self._layout, CheckpointNumber(completed.checkpoint))
        except DamagedCheckpoint as error:
            # it was superseded and discarded already; the next one covers its batches
            log.warning("checkpoint_not_shown", checkpoint=completed.checkpoint, reason=str(error))
            return
        for region, sink in self._sinks.items():
            batch = manifest.regions[region].batch
            if batch is not None:
                sink.show_up_to(batch)


def _reached(begun: int | None, committed: int | None) -> bool:
    return begun is None or (committed is not None and committed >= begun)
