"""The thread that answers barriers, so that heartbeats and queries go on meanwhile.

A barrier is met by the next batch boundary of every region: the commit of the batch
under way, or the last one where none is. The queries are not paused. A stop is
answered in the same way, once the queries have ended at a boundary.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from queue import SimpleQueue
from threading import Lock, Thread
from typing import assert_never

from jobmanager.core.ids import CheckpointNumber, RegionId
from jobmanager.core.snapshots.storage_uri import UnsupportedStorage
from jobmanager.files.locks import LockUnavailable
from jobmanager.protocol.messages import (
    Barrier,
    BarrierAcks,
    BarrierDeclined,
    BarrierReply,
    CheckpointAborted,
    CheckpointCompleted,
    DeclineReason,
    Stop,
)
from taskrunner import logs
from taskrunner.control.client import (
    CallRefused,
    JobManagerClient,
    NotDelivered,
    RunnerDismissed,
)
from taskrunner.core.acks import acks_of
from taskrunner.core.orders import Dismissed, Order, Replaced, StopSettled
from taskrunner.sinks.directory import SinkDirectory
from taskrunner.snapshots.fence import Superseded
from taskrunner.snapshots.snapshot import AttemptContext, Snapshots, StateMismatch, Taken
from taskrunner.snapshots.spark_log import SparkLog, UnreadableSparkLog
from taskrunner.snapshots.spark_state import MissingState

_POLL_SECONDS = 0.02
_DECLINE_WITHIN = timedelta(seconds=30)
log = logs.get("barriers")

Told = Barrier | Stop | CheckpointCompleted | CheckpointAborted


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
        subject: AttemptContext,
        snapshots: Snapshots,
        logs_by_region: Mapping[RegionId, SparkLog],
        is_alive: Callable[[RegionId], bool],
        sinks: Mapping[RegionId, Sequence[SinkDirectory]],
        client: JobManagerClient,
        order: Callable[[Order], None],
    ) -> None:
        super().__init__(name="barriers", daemon=True)
        self._subject = subject
        self._snapshots = snapshots
        self._logs = logs_by_region
        self._is_alive = is_alive
        self._sinks = sinks
        self._client = client
        self._order = order
        self._told: SimpleQueue[Told | None] = SimpleQueue()
        self._aborted: set[int] = set()
        self._batches: dict[int, dict[RegionId, int | None]] = {}
        """Of each checkpoint that was taken: its output may be shown up to there."""
        self._is_ending = False
        self._is_stopping = False
        self._answering = Lock()
        self._unsettled: int | None = None
        """The checkpoint of a stop that was acked and is not yet complete."""

    def tell(self, body: Told) -> None:
        if isinstance(body, CheckpointAborted):
            self._aborted.add(body.checkpoint)  # a barrier that waits is to see it
        self._told.put(body)

    def refuse_barriers(self) -> None:
        """From now on only a stop is answered: what comes is no state to go on from."""
        self._is_stopping = True
        with self._answering:
            pass  # the one under way has been answered

    def end(self) -> None:
        """No barrier is answered after this; waits for the one under way."""
        self._is_ending = True
        self.finish()

    def finish(self) -> None:
        """Waits until all that was told is done, and ends."""
        self._told.put(None)
        if self.is_alive():
            self.join()

    def run(self) -> None:
        while (body := self._told.get()) is not None:
            try:
                match body:
                    case Barrier():
                        with self._answering:
                            self._answer(body)
                    case Stop():
                        self._settle(body)
                    case CheckpointCompleted():
                        self._show(body.checkpoint)
                        if body.checkpoint == self._unsettled:
                            self._order(StopSettled(None))
                    case CheckpointAborted():
                        self._batches.pop(body.checkpoint, None)
                        log.info("checkpoint_aborted", checkpoint=body.checkpoint)
                    case _:
                        assert_never(body)
            except Superseded as error:
                self._order(Replaced(str(error)))
            except RunnerDismissed as error:
                self._order(Dismissed(str(error)))
            except Exception as error:  # the thread must live: the next barrier may succeed
                log.error("barrier_failed", directive=body.kind, exc_info=error)

    def _settle(self, stop: Stop) -> None:
        """Answers a stop, and says whether its savepoint counts as soon as that is known."""
        try:
            fault = self._answer(stop)
        except Exception as error:
            self._order(StopSettled(f"{type(error).__name__}: {error}"))
            raise
        if fault is None and stop.checkpoint in self._batches:
            self._unsettled = stop.checkpoint  # until `CheckpointCompleted`
        else:
            self._order(StopSettled(fault))

    def _answer(self, barrier: Barrier | Stop) -> str | None:
        """Takes the snapshot and sends the acks, or declines. None: it was accepted."""
        try:
            taken = self._take(barrier)
        except NoBoundary as error:
            return self.decline(barrier, error.reason, str(error), error.region)
        except Superseded as error:
            self.decline(barrier, "superseded", str(error))
            raise
        except (MissingState, LockUnavailable, OSError) as error:
            return self.decline(barrier, "storage", f"{type(error).__name__}: {error}")
        except (StateMismatch, UnreadableSparkLog, UnsupportedStorage, ValueError) as error:
            return self.decline(barrier, "internal", f"{type(error).__name__}: {error}")
        self._batches[barrier.checkpoint] = {
            region: one.batch for region, one in taken.manifest.regions.items()
        }
        acks = acks_of(self._subject.graph, taken.manifest, taken.new_bytes)
        return self._send(acks, barrier)

    def _take(self, barrier: Barrier | Stop) -> Taken:
        checkpoint = CheckpointNumber(barrier.checkpoint)
        if isinstance(barrier, Barrier):
            self._await_boundaries(barrier)
        else:
            self._check(barrier)
        directories = {region: one.directory for region, one in self._logs.items()}
        now = datetime.now(UTC)
        if barrier.savepoint is None:
            return self._snapshots.take(checkpoint, directories, now)
        target = barrier.savepoint
        return self._snapshots.take_savepoint(
            checkpoint, directories, now, target.id, target.directory
        )

    def _await_boundaries(self, barrier: Barrier) -> None:
        """Returns when every region has committed the batch it was in. Raises `NoBoundary`."""
        begun = {region: one.last_begun() for region, one in self._logs.items()}
        waiting = list(begun)
        self._check(barrier)
        while waiting:
            self._check(barrier)
            for region in list(waiting):
                if _reached(begun[region], self._logs[region].last_committed()):
                    waiting.remove(region)
                elif not self._is_alive(region):
                    raise NoBoundary("not_running", "the query has ended in a batch", region)
            if waiting:
                time.sleep(_POLL_SECONDS)

    def _check(self, barrier: Barrier | Stop) -> None:
        if self._is_ending:
            raise NoBoundary("not_running", "the attempt is ending")
        if self._is_stopping and isinstance(barrier, Barrier):
            raise NoBoundary("not_running", "the job is being stopped")
        if barrier.checkpoint in self._aborted:
            raise NoBoundary("no_boundary_in_time", "the checkpoint was aborted")
        if datetime.now(UTC) >= barrier.expires_at:
            raise NoBoundary("no_boundary_in_time", "a batch took longer than the checkpoint may")

    def _send(self, acks: BarrierAcks, barrier: Barrier | Stop) -> str | None:
        """Sends the acks. None: they were accepted."""
        left = max(barrier.expires_at - datetime.now(UTC), timedelta(seconds=1))
        try:
            reply = self._client.ack(acks, within=left)
        except (NotDelivered, CallRefused) as error:
            log.warning("acks_not_delivered", checkpoint=acks.checkpoint, reason=str(error))
            return f"the acks were not delivered: {error}"
        log.info("barrier_acked", checkpoint=acks.checkpoint, outcome=reply.outcome)
        self._heed(reply)
        match reply.outcome:
            case "completed" | "already_recorded":
                self._show(barrier.checkpoint)
            case "recorded":
                pass  # all acks were in one message, so `CheckpointCompleted` follows
            case "too_late" | "superseded":
                return f"the JobManager says that the acks are {reply.outcome.replace('_', ' ')}"
        return None

    def decline(
        self,
        barrier: Barrier | Stop,
        reason: DeclineReason,
        detail: str,
        region: str | None = None,
    ) -> str:
        """Says that there will be no snapshot, and why."""
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
        return detail

    def _heed(self, reply: BarrierReply) -> None:
        if reply.outcome == "superseded":
            self._order(Replaced("the JobManager says so"))

    def _show(self, checkpoint: int) -> None:
        """Makes visible what was held back for this checkpoint, which is complete."""
        batches = self._batches.pop(checkpoint, {})
        for region, sinks in self._sinks.items():
            batch = batches.get(region)
            if batch is not None:
                for sink in sinks:
                    sink.show_up_to(batch)


def _reached(begun: int | None, committed: int | None) -> bool:
    return begun is None or (committed is not None and committed >= begun)
