"""Barriers and stops on a fabricated Spark directory, answered to a JobManager over HTTP."""

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar
from uuid import UUID, uuid4

import pytest

from jobmanager.core.ids import AttemptNumber, RunnerId
from jobmanager.core.snapshots.manifest import from_json
from jobmanager.protocol.messages import (
    AttemptFailedReport,
    AttemptStoppedReport,
    Barrier,
    BarrierAcks,
    BarrierDecline,
    CheckpointCompleted,
    EndingReport,
    FailureReport,
    SavepointTarget,
    Stop,
)
from taskrunner.attempt_loop import AttemptLoop
from taskrunner.barriers import BarrierThread, SnapshotSources
from taskrunner.control.address import AddressFile
from taskrunner.control.client import JobManagerClient
from taskrunner.core.attempt import events
from taskrunner.core.attempt.instructions import (
    AskRegionsToStop,
    BreakOffSnapshot,
    Instruction,
    Prepare,
    Report,
    SendAcks,
    SendDecline,
    ShowOutput,
    StartQueries,
    StopRegionsAtOnce,
    StopWatching,
    TakeSnapshot,
    WatchBatches,
)
from taskrunner.sinks.directory import SinkDirectory
from taskrunner.snapshots.fence import Fence
from taskrunner.snapshots.layout import JobLayout
from taskrunner.snapshots.snapshot import AttemptContext, Snapshots
from taskrunner.snapshots.spark_log import SparkLog
from tests.integration.spark.scripted_jobmanager import SECRET, ScriptedJobManager
from tests.support import stores
from tests.unit.taskrunner.builders import JOB, OUT, SINK, a_graph, spark_directory
from tests.unit.taskrunner.test_sink_directory import rows, write

ATTEMPT = AttemptNumber(1)
Said = TypeVar("Said", BarrierAcks, BarrierDecline)


class Site:
    """A job at batch 1, whose output is held back, and the threads that answer for it. Its queries
    do nothing more: they end as soon as they are asked to.
    """

    def __init__(self, root: Path, elsewhere: str | None = None) -> None:
        self.root = root
        self.jobmanager = ScriptedJobManager()
        self.endings: SimpleQueue[EndingReport] = SimpleQueue()
        layout = JobLayout(root / "jobs" / JOB.hex, elsewhere)
        spark = self._spark = spark_directory(layout, 1)
        sink = SinkDirectory(root / "sink", JOB, SINK, ATTEMPT, nullcontext)
        for batch in range(2):
            spark.commit(batch)
            write(sink, batch, parts=1, held=True)
        address = root / "address.json"
        address.write_text(json.dumps({"urls": [self.jobmanager.url]}))
        self._client = JobManagerClient(RunnerId(uuid4()), AddressFile(address), SECRET)
        context = AttemptContext(JOB, ATTEMPT, a_graph(), 2, "4.3.0", {"name": "orders"})
        self._loop = AttemptLoop(self._carry_out, self._give_up)
        self._barriers = BarrierThread(JOB, ATTEMPT, self._client, self._loop.tell)
        self._barriers.can_snapshot(
            SnapshotSources(
                context,
                Snapshots(context, layout, Fence(layout, ATTEMPT)),
                {OUT: SparkLog(spark.path)},
                lambda region: True,
                lambda region: False,
                lambda region: False,
                {OUT: [sink]},
            )
        )
        self._barriers.start()
        self._loop.start()

    def tell(self, *told: Barrier | Stop | CheckpointCompleted) -> None:
        for one in told:
            match one:
                case Barrier():
                    left = one.expires_at - datetime.now(UTC)
                    self._loop.tell(events.BarrierArrived(one, left))
                case Stop():
                    left = one.expires_at - datetime.now(UTC)
                    self._loop.tell(events.StopAsked(one, left))
                case CheckpointCompleted():
                    self._loop.tell(one)

    def fail(self) -> None:
        """A query fails."""
        failure = FailureReport(
            kind="user_code", is_restartable=True, message="boom", stack="Traceback"
        )
        self._loop.tell(events.QueryFailed(OUT, failure))

    def await_barriers(self) -> None:
        """Returns when the thread that answers barriers has ended."""
        self._barriers.end()

    def begin(self, batch: int) -> None:
        """A batch is planned, and under way."""
        offsets = self._spark.path / "offsets"
        shutil.copy(offsets / str(batch - 1), offsets / str(batch))

    def commit(self, batch: int) -> None:
        self._spark.commit(batch)

    def ending(self) -> EndingReport:
        """How the attempt ends."""
        return self.endings.get(timeout=30)

    def wait_for(self, kind: type[Said]) -> Said:
        """The first message of this kind that the JobManager hears."""
        return self.jobmanager.wait_for(lambda said: said if isinstance(said, kind) else None)

    def close(self) -> None:
        self._loop.tell(events.Dismissed("the test is over"))
        self._loop.join()
        self._barriers.end()
        self._client.close()
        self.jobmanager.close()

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case Prepare():
                self._loop.tell(events.Prepared((OUT,), has_boundaries=True))
            case StartQueries():
                self._loop.tell(events.AllQueriesStarted())
            case AskRegionsToStop():
                self._loop.tell(events.QueryEnded(OUT))
            case StopRegionsAtOnce():
                self._loop.tell(events.RegionsStopped())
            case BreakOffSnapshot(checkpoint=checkpoint):
                self._barriers.break_off(checkpoint)
            case Report(body=AttemptStoppedReport() | AttemptFailedReport() as body):
                self.endings.put(body)
            case (
                WatchBatches()
                | StopWatching()
                | TakeSnapshot()
                | SendAcks()
                | SendDecline()
                | ShowOutput()
            ):
                self._barriers.do(instruction)
            case _:
                pass

    def _give_up(self, error: Exception) -> None:
        raise error


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()


@pytest.fixture
def far_site(tmp_path: Path) -> Iterator[Site]:
    """A site whose checkpoints are in another store."""
    stores.forget()
    site = Site(tmp_path, "moody://bucket/job")
    yield site
    site.close()


def target(root: Path) -> SavepointTarget:
    return SavepointTarget(id=UUID(int=9), directory=(root / "savepoints/one").as_uri())


def in_a_minute() -> datetime:
    return datetime.now(UTC) + timedelta(minutes=1)


def a_stop(root: Path, expires_at: datetime | None = None) -> Stop:
    return Stop(
        checkpoint=5,
        expires_at=expires_at or in_a_minute(),
        savepoint=target(root),
        drain=False,
    )


def test_a_barrier_for_a_savepoint_is_acked_with_what_is_in_its_directory(site: Site) -> None:
    barrier = Barrier(checkpoint=5, expires_at=in_a_minute(), savepoint=target(site.root))

    site.tell(barrier)

    acks = site.wait_for(BarrierAcks)
    assert (acks.manifest, acks.batches) == ("manifest.json", {"out": 1})
    manifest = from_json((site.root / "savepoints/one/manifest.json").read_text())
    assert (manifest.checkpoint, manifest.bytes) == (5, acks.bytes)
    assert site.endings.empty()


def test_a_stop_is_settled_and_its_output_shown_when_it_is_complete(site: Site) -> None:
    assert rows(site.root) == []

    site.tell(a_stop(site.root))

    assert site.ending() == AttemptStoppedReport(savepoint=UUID(int=9))
    assert rows(site.root) == ["0:0", "1:0"]


def test_a_stop_that_was_only_recorded_waits_for_its_completion(site: Site) -> None:
    site.jobmanager.ack_outcome = "recorded"

    site.tell(a_stop(site.root))
    site.wait_for(BarrierAcks)
    assert rows(site.root) == []
    assert site.endings.empty()

    site.tell(CheckpointCompleted(checkpoint=5))
    assert site.ending() == AttemptStoppedReport(savepoint=UUID(int=9))
    assert rows(site.root) == ["0:0", "1:0"]


def test_a_stop_whose_savepoint_cannot_be_written_is_declined(site: Site) -> None:
    (site.root / "savepoints/one").mkdir(parents=True)

    site.tell(a_stop(site.root))

    declined = site.wait_for(BarrierDecline)
    assert declined.reason == "storage"
    assert declined.detail.endswith("savepoints/one exists already")
    ending = site.ending()
    assert isinstance(ending, AttemptFailedReport)
    assert ending.failure.message.endswith(f"the savepoint was not taken: {declined.detail}")
    assert rows(site.root) == []


def test_a_stop_that_comes_too_late_is_declined_and_leaves_nothing(site: Site) -> None:
    site.tell(a_stop(site.root, expires_at=datetime.now(UTC)))

    declined = site.wait_for(BarrierDecline)
    assert declined.reason == "no_boundary_in_time"
    assert not (site.root / "savepoints").exists()


def test_a_stop_that_the_jobmanager_has_given_up_is_not_settled_as_done(site: Site) -> None:
    site.jobmanager.ack_outcome = "too_late"

    site.tell(a_stop(site.root))

    ending = site.ending()
    assert isinstance(ending, AttemptFailedReport)
    assert ending.failure.message.endswith("the JobManager says that the acks are too late")
    assert rows(site.root) == []


def test_while_a_job_stops_no_barrier_is_answered(site: Site) -> None:
    site.jobmanager.ack_outcome = "recorded"  # so it goes on stopping

    site.tell(a_stop(site.root), Barrier(checkpoint=6, expires_at=in_a_minute()))

    declined = site.wait_for(BarrierDecline)
    assert (declined.checkpoint, declined.reason) == (6, "not_running")
    assert declined.detail == "the job is being stopped"


def test_a_store_that_fails_declines_the_barrier_in_its_own_words_and_the_next_is_acked(
    far_site: Site,
) -> None:
    with stores.failing(after=3):
        far_site.tell(Barrier(checkpoint=1, expires_at=in_a_minute()))
        declined = far_site.wait_for(BarrierDecline)
    far_site.tell(Barrier(checkpoint=2, expires_at=in_a_minute()))
    acks = far_site.wait_for(BarrierAcks)

    assert declined.reason == "storage"
    assert "StoreFailed: moody://bucket/job/pool/out/" in declined.detail
    assert "the store is full" in declined.detail
    assert (acks.checkpoint, acks.manifest) == (2, "checkpoints/2/manifest.json")
    text = stores.MoodyStore().cat_file("/bucket/job/checkpoints/2/manifest.json").decode()
    assert from_json(text).checkpoint == 2


def test_a_barrier_is_met_by_the_commit_of_the_batch_under_way(site: Site) -> None:
    site.begin(2)
    site.tell(Barrier(checkpoint=5, expires_at=in_a_minute()))
    time.sleep(0.2)
    assert site.jobmanager.said == [], "a batch is under way"

    site.commit(2)

    assert site.wait_for(BarrierAcks).batches == {"out": 2}


def test_a_batch_that_outlasts_its_checkpoint_declines_the_barrier_on_time(site: Site) -> None:
    site.begin(2)
    begun = time.monotonic()

    site.tell(
        Barrier(checkpoint=5, expires_at=datetime.now(UTC) + timedelta(seconds=0.3)),
    )

    assert site.wait_for(BarrierDecline).reason == "no_boundary_in_time"
    assert 0.2 < time.monotonic() - begun < 5


def test_a_failure_is_reported_while_the_store_hangs_and_the_upload_ends_after_its_file(
    far_site: Site,
) -> None:
    with stores.hanging() as is_waited_for:
        far_site.tell(Barrier(checkpoint=1, expires_at=in_a_minute(), savepoint=None))
        assert is_waited_for.wait(30)
        far_site.fail()

        assert isinstance(far_site.ending(), AttemptFailedReport)
        assert stores.uploaded() == []
    far_site.await_barriers()
    assert len(stores.uploaded()) == 1
    assert not [one for one in far_site.jobmanager.said if isinstance(one, BarrierAcks)]
