"""Barriers and stops on a fabricated Spark directory, answered to a JobManager over HTTP."""

import json
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import SimpleQueue
from uuid import UUID, uuid4

import pytest

from jobmanager.core.ids import AttemptNumber, RunnerId
from jobmanager.core.snapshots.manifest import from_json
from jobmanager.protocol.messages import (
    Barrier,
    BarrierAcks,
    BarrierDeclined,
    CheckpointCompleted,
    SavepointTarget,
    Stop,
)
from taskrunner.barriers import BarrierThread, Told
from taskrunner.control.address import AddressFile
from taskrunner.control.client import JobManagerClient
from taskrunner.core.orders import Order, StopSettled
from taskrunner.sinks.directory import SinkDirectory
from taskrunner.snapshots.fence import Fence
from taskrunner.snapshots.layout import JobLayout
from taskrunner.snapshots.snapshot import AttemptContext, Snapshots
from taskrunner.snapshots.spark_log import SparkLog
from tests.integration.spark.scripted_jobmanager import TOKEN, ScriptedJobManager
from tests.support import stores
from tests.unit.taskrunner.builders import JOB, OUT, SINK, a_graph, spark_directory
from tests.unit.taskrunner.test_sink_directory import rows, write

ATTEMPT = AttemptNumber(1)


class Site:
    """A job at batch 1, whose output is held back, and the thread that answers for it."""

    def __init__(self, root: Path, elsewhere: str | None = None) -> None:
        self.root = root
        self.jobmanager = ScriptedJobManager()
        self.orders: SimpleQueue[Order] = SimpleQueue()
        layout = JobLayout(root / "jobs" / JOB.hex, elsewhere)
        spark = spark_directory(layout, 1)
        sink = SinkDirectory(root / "sink", JOB, SINK, ATTEMPT, nullcontext)
        for batch in range(2):
            spark.commit(batch)
            write(sink, batch, parts=1, held=True)
        address = root / "address.json"
        address.write_text(json.dumps({"urls": [self.jobmanager.url]}))
        self._client = JobManagerClient(RunnerId(uuid4()), AddressFile(address), TOKEN)
        subject = AttemptContext(JOB, ATTEMPT, a_graph(), 2, "4.3.0", {"name": "orders"})
        self.thread = BarrierThread(
            subject,
            Snapshots(subject, layout, Fence(layout, ATTEMPT)),
            {OUT: SparkLog(spark.path)},
            lambda region: True,
            {OUT: [sink]},
            self._client,
            self.orders.put,
        )
        self.thread.start()

    def tell(self, *told: Told) -> None:
        """Tells the thread, and waits until it has done all."""
        for one in told:
            self.thread.tell(one)
        self.thread.finish()

    def said(self, kind: type[BarrierAcks] | type[BarrierDeclined]) -> list[object]:
        return [message for message in self.jobmanager.said if isinstance(message, kind)]

    def close(self) -> None:
        self.thread.end()
        self._client.close()
        self.jobmanager.close()


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

    (acks,) = site.said(BarrierAcks)
    assert isinstance(acks, BarrierAcks)
    assert (acks.manifest, acks.batches) == ("manifest.json", {"out": 1})
    manifest = from_json((site.root / "savepoints/one/manifest.json").read_text())
    assert (manifest.checkpoint, manifest.bytes) == (5, acks.bytes)
    assert site.orders.empty()


def test_a_stop_is_settled_and_its_output_shown_when_it_is_complete(site: Site) -> None:
    assert rows(site.root) == []

    site.tell(a_stop(site.root))

    assert site.orders.get_nowait() == StopSettled(None)
    assert rows(site.root) == ["0:0", "1:0"]


def test_a_stop_that_was_only_recorded_waits_for_its_completion(site: Site) -> None:
    site.jobmanager.ack_outcome = "recorded"

    site.thread.tell(a_stop(site.root))
    site.jobmanager.wait_for(lambda m: m if isinstance(m, BarrierAcks) else None)
    assert rows(site.root) == []
    assert site.orders.empty()

    site.tell(CheckpointCompleted(checkpoint=5))
    assert site.orders.get_nowait() == StopSettled(None)
    assert rows(site.root) == ["0:0", "1:0"]


def test_a_stop_whose_savepoint_cannot_be_written_is_declined(site: Site) -> None:
    (site.root / "savepoints/one").mkdir(parents=True)

    site.tell(a_stop(site.root))

    (declined,) = site.said(BarrierDeclined)
    assert isinstance(declined, BarrierDeclined)
    assert declined.reason == "storage"
    assert declined.detail.endswith("savepoints/one exists already")
    assert site.orders.get_nowait() == StopSettled(declined.detail)
    assert rows(site.root) == []


def test_a_stop_that_comes_too_late_is_declined_and_leaves_nothing(site: Site) -> None:
    site.tell(a_stop(site.root, expires_at=datetime.now(UTC)))

    (declined,) = site.said(BarrierDeclined)
    assert isinstance(declined, BarrierDeclined)
    assert declined.reason == "no_boundary_in_time"
    assert not (site.root / "savepoints").exists()


def test_a_stop_that_the_jobmanager_has_given_up_is_not_settled_as_done(site: Site) -> None:
    site.jobmanager.ack_outcome = "too_late"

    site.tell(a_stop(site.root))

    assert site.orders.get_nowait() == StopSettled("the JobManager says that the acks are too late")
    assert rows(site.root) == []


def test_while_a_job_stops_no_barrier_is_answered(site: Site) -> None:
    site.thread.refuse_barriers()

    site.tell(Barrier(checkpoint=6, expires_at=in_a_minute()))

    (declined,) = site.said(BarrierDeclined)
    assert isinstance(declined, BarrierDeclined)
    assert (declined.reason, declined.detail) == ("not_running", "the job is being stopped")


def test_a_store_that_fails_declines_the_barrier_in_its_own_words_and_the_next_is_acked(
    far_site: Site,
) -> None:
    with stores.failing(after=3):
        far_site.thread.tell(Barrier(checkpoint=1, expires_at=in_a_minute()))
        declined = far_site.jobmanager.wait_for(
            lambda said: said if isinstance(said, BarrierDeclined) else None
        )
    far_site.tell(Barrier(checkpoint=2, expires_at=in_a_minute()))

    assert declined.reason == "storage"
    assert "StoreFailed: moody://bucket/job/pool/out/" in declined.detail
    assert "the store is full" in declined.detail
    [acks] = far_site.said(BarrierAcks)
    assert isinstance(acks, BarrierAcks)
    assert (acks.checkpoint, acks.manifest) == (2, "checkpoints/2/manifest.json")
    text = stores.MoodyStore().cat_file("/bucket/job/checkpoints/2/manifest.json").decode()
    assert from_json(text).checkpoint == 2
