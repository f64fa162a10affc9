"""A job in a test: its graph, its attempts, and what readers see of its output."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow.dataset
from pyspark.sql import SparkSession

from jobmanager.core.graph import graph_document
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId, RegionId, VertexId
from jobmanager.core.plan import spark_order
from jobmanager.core.plan.job_plan import plan_of
from jobmanager.core.snapshots.layout import ATTEMPTS, MANIFEST
from jobmanager.core.snapshots.manifest import Manifest
from jobmanager.protocol.messages import RestorePointMessage
from taskrunner.sinks.joiner import BreakOff
from taskrunner.snapshots.clone import Past
from taskrunner.snapshots.fence import Fence
from taskrunner.snapshots.layout import JobLayout
from taskrunner.snapshots.restore_source import (
    RestoreSource,
    open_restore_source,
    read_lineage,
    write_lineage,
)
from taskrunner.snapshots.snapshot import AttemptContext, Snapshots
from taskrunner.snapshots.spark_log import SparkLog
from taskrunner.spark.run.job import SPARK_VERSION, SparkJob
from taskrunner.spark.run.job_paths import JobPaths
from taskrunner.spark.run.region_query import QueryPhase

Row = dict[str, Any]
OUT = RegionId("out")


class JobUnderTest:
    """Runs attempts of one job in the tests' Spark session, without a JobManager."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.root = root
        self.id = JobId(uuid4())
        self.layout = JobLayout(root / "jobs" / self.id.hex)
        self.attempt = AttemptNumber(0)
        self.running: SparkJob | None = None
        self.partitions: dict[VertexId, int] = {}
        """Of the sources of a real-time job."""
        self.graph: JobGraph
        self.document: dict[str, Any]

    def define(self, *vertices: Row, parallelism: int = 2, **fields: Any) -> "JobUnderTest":
        self.document = {
            "name": "test",
            "parallelism": parallelism,
            "max_parallelism": 12,
            "vertices": list(vertices),
            **fields,
        }
        self.graph = graph_document.parse(self.document)
        return self

    def rescale(self, parallelism: int, *vertices: Row) -> Path:
        """Stops the attempt under way, and starts the next from its savepoint, with another
        number of subtasks and other vertices if there are any. Returns the savepoint.
        """
        self.stop_at_boundary()
        savepoint = self.savepoint(f"of attempt {self.attempt}")
        self.define(*(vertices or self.document["vertices"]), parallelism=parallelism)
        self.start(savepoint=savepoint, base_attempt=self.attempt + 1)
        return savepoint

    def roll_back(self, parallelism: int, savepoint: Path, *vertices: Row) -> None:
        """Gives the attempt under way up, and goes back to the savepoint."""
        self.stop()
        self.define(*(vertices or self.document["vertices"]), parallelism=parallelism)
        self.start(savepoint=savepoint, base_attempt=self.attempt + 1)

    def successor(self) -> "JobUnderTest":
        """Another job in the same place, with the same graph."""
        other = JobUnderTest(self.spark, self.root)
        other.document, other.graph = self.document, self.graph
        return other

    def start(
        self,
        completed: Manifest | None = None,
        savepoint: Path | None = None,
        base_attempt: int = 1,
    ) -> SparkJob:
        """Starts the next attempt, restored as the rules say."""
        self.attempt = AttemptNumber(self.attempt + 1)
        self.spark.conf.set("spark.sql.shuffle.partitions", str(self.graph.parallelism))
        fence = Fence(self.layout, self.attempt)
        fence.raise_epoch()
        places = JobPaths(self.layout, self.root)
        origin = self._origin(savepoint) if savepoint else None
        past = Past(completed, origin, AttemptNumber(base_attempt))
        self.running = SparkJob(
            self.spark, self._subject(), places, fence, past, partitions=self.partitions
        )
        self.running.prepare()
        for region in self.running.regions:
            region.start()
        return self.running

    def finish(self) -> None:
        """Lets the attempt under way come to its own end."""
        job = self.running
        assert job is not None
        self.wait(lambda: {region.poll() for region in job.regions} == {QueryPhase.FINISHED})
        job.show_everything()

    def run(self) -> "JobUnderTest":
        self.start()
        self.finish()
        return self

    def stop(self) -> None:
        """Stops the attempt under way at once, wherever it is."""
        for region in self.running.regions if self.running else []:
            region.stop()

    def stop_at_boundary(self) -> None:
        for region in self.running.regions if self.running else []:
            assert region.ask_to_stop()
            assert region.has_ended(timedelta(seconds=120))
            region.stop()
            assert region.error is None

    def checkpoint(self, number: int) -> Manifest:
        """Takes a checkpoint of the attempt under way."""
        taken = self._snapshots().take(
            CheckpointNumber(number),
            self._spark_dirs(),
            datetime.now(UTC),
            before_manifest=self._note_restore_point,
        )
        return taken.manifest

    def complete(self, manifest: Manifest) -> None:
        """A checkpoint of the attempt under way is complete: shows the output that waited for it,
        as the runner does.
        """
        job = self.running
        assert job is not None
        for region, one in manifest.regions.items():
            assert one.batch is not None
            job.join_files(region, one.batch, BreakOff())
            for sink in job.held_sinks[region]:
                sink.show_up_to(one.batch)

    def savepoint(self, name: str = "savepoint") -> Path:
        """Takes a savepoint of the attempt under way."""
        directory = self.root / "savepoints" / name
        self._snapshots().take_savepoint(
            CheckpointNumber(1),
            self._spark_dirs(),
            datetime.now(UTC),
            uuid4(),
            directory.as_uri(),
            before_manifest=self._note_restore_point,
        )
        return directory

    def log(self, region: str = "out") -> SparkLog:
        return SparkLog(self.spark_dir(region))

    def spark_dir(self, region: str = "out") -> Path:
        return self.layout.spark_checkpoint_dir(self.attempt, RegionId(region))

    def state_operators(self, region: str = "out") -> dict[str, str]:
        """Keyed vertex to the name that Spark wrote down for its stateful operator."""
        vertices = spark_order.keyed(self.graph, VertexId(region))
        return {
            vertex: self._operator_name(self.spark_dir(region) / f"state/{number}/_metadata")
            for number, vertex in enumerate(vertices)
        }

    def _operator_name(self, metadata: Path) -> str:
        """From `metadata`, or, of operators whose schemas may change, `v2/<batch>`."""
        [*_, newest] = sorted(
            one for one in metadata.rglob("*") if one.is_file() and "." not in one.name
        )
        return str(json.loads(newest.read_text().splitlines()[1])["operatorInfo"]["operatorName"])

    def forget_attempts(self) -> None:
        """The directories of all attempts are lost."""
        self._lose(self.layout.directory / ATTEMPTS)

    def lose_everything(self) -> None:
        """Nothing is left of the job but its output and what was put elsewhere."""
        self._lose(self.layout.directory)

    def _lose(self, directory: Path) -> None:
        """Moved, not deleted: Spark's maintenance thread may be writing a snapshot there, and
        a deletion would trip over it.
        """
        directory.rename(self.root / f"lost-{directory.name}-{self.attempt}")

    def wait(self, condition: Callable[[], bool], seconds: float = 120) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            for region in self.running.regions if self.running else []:
                if region.phase is QueryPhase.FAILED and region.error is not None:
                    raise region.error
            assert time.monotonic() < deadline, f"it took more than {seconds} s"
            time.sleep(0.05)

    def wait_for_commit(self, is_wanted: Callable[[SparkLog, int], bool]) -> None:
        """Waits until the last committed batch of the region `out` is as wanted."""
        job = self.running
        assert job is not None

        def is_there() -> bool:
            for one in job.regions:
                one.poll()
            batch = self.log().last_committed()
            return batch is not None and is_wanted(self.log(), batch)

        self.wait(is_there)

    def output(self, path: str = "out") -> list[Row]:
        """What a plain reader of the sink's directory sees."""
        if not (self.root / path).exists():
            return []
        found = pyarrow.dataset.dataset(self.root / path, format="parquet", partitioning="hive")
        rows: list[Row] = found.to_table().to_pylist()
        return rows

    def _origin(self, savepoint: Path) -> RestoreSource:
        origin = open_restore_source(restore_point(savepoint), self.graph)
        write_lineage(self.layout, self.id, origin)
        return origin

    def _note_restore_point(self, manifest: Manifest) -> None:
        for region, one in manifest.regions.items():
            if self.running is not None and one.batch is not None:
                self.running.note_restore_point(region, one.batch)

    def _snapshots(self) -> Snapshots:
        return Snapshots(self._subject(), self.layout, Fence(self.layout, self.attempt))

    def _spark_dirs(self) -> dict[RegionId, Path]:
        return {one.id: self.spark_dir(one.id) for one in plan_of(self.graph).regions}

    def _subject(self) -> AttemptContext:
        return AttemptContext(
            self.id,
            self.attempt,
            self.graph,
            self.graph.parallelism,
            SPARK_VERSION,
            self.document,
            read_lineage(self.layout),
        )


def restore_point(savepoint: Path) -> RestorePointMessage:
    return RestorePointMessage(root=savepoint.as_uri(), manifest=MANIFEST, name="the savepoint")


def table(rows: list[Row], **fields: Any) -> Row:
    """A source `rows` of (id, k, v, ts) with a watermark."""
    return {
        "id": "rows",
        "op": "source",
        "connector": "table",
        "schema": "id BIGINT, k STRING, v BIGINT, ts TIMESTAMP",
        "rows": rows,
        "watermark": {"column": "ts", "delay": "5s"},
        **fields,
    }


def files_sink(after: str, **fields: Any) -> Row:
    return {
        "id": "out",
        "op": "sink",
        "inputs": [after],
        "connector": "files",
        "format": "parquet",
        "path": "out",
        **fields,
    }


def second(n: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=n)


def some_rows(count: int = 300, first: int = 0) -> list[Row]:
    """Rows in time order, about five a second, seven keys."""
    return [
        {"id": n, "k": f"k{n * n % 7}", "v": n * 37 % 101, "ts": second(n // 5).isoformat()}
        for n in range(first, first + count)
    ]
