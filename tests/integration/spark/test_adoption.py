"""Checkpoints of plain Spark queries, made into savepoints from which jobs go on."""

import shutil
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from jobmanager.core.snapshots import manifest as manifests
from jobmanager.protocol.inspection import AdoptCheckpoint, Adopted, Question, Refusal
from taskrunner.inspector.request_handler import RequestHandler
from taskrunner.snapshots.foreign import ROCKSDB
from taskrunner.spark.run.region_query import RegionQuery
from taskrunner.spark.run.trial_run import unload_state
from taskrunner.stopping import await_ends, drain, stop_at_once
from tests.integration.spark.fed_files import (
    ALL_ROWS,
    FILES,
    SUMS,
    check_updates_are_seen_once,
    feed,
    files_source,
    sums_after,
    sums_seen,
    wait_until_read,
)
from tests.integration.spark.jobs import JobUnderTest, Row, files_sink

HDFS_BACKED = ROCKSDB.replace("RocksDB", "HDFSBacked")
SCHEMA = "id BIGINT, k STRING, v BIGINT, ts TIMESTAMP"
PATIENT_SOURCE = {"watermark": {"column": "ts", "delay": "1h"}}


class PlainQuery:
    """A query as anybody writes it, that has read some files and was killed in the next batch."""

    def __init__(self, job: JobUnderTest, provider: str, version: int, partitions: int) -> None:
        self.job = job
        self.directory = job.root / "plain"
        self._session = job.spark.newSession()
        settings = {
            "stateStore.providerClass": provider,
            "stateStore.checkpointFormatVersion": version,
        }
        for name, value in settings.items():
            self._session.conf.set(f"spark.sql.streaming.{name}", str(value))
        self._session.conf.set("spark.sql.shuffle.partitions", str(partitions))
        # each batch has a file, also the one in which it is killed
        self._session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")

    def rows(self, delay: str = "2 seconds") -> DataFrame:
        source = self._session.readStream.format("json").schema(SCHEMA)
        files = source.option("maxFilesPerTrigger", 1).load((self.job.root / "in").as_uri())
        return files.withWatermark("ts", delay)

    def run(self, result: DataFrame, mode: str, *, killed: bool = True) -> Path:
        query = (
            result.writeStream.format("noop")
            .outputMode(mode)
            .option("checkpointLocation", self.directory.as_uri())
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        unload_state(self.job.spark)  # nothing goes on in its directory
        if killed:  # after it had begun its last batch, and before it was done
            last = max(int(one.name) for one in (self.directory / "commits").glob("[0-9]*"))
            (self.directory / "commits" / str(last)).unlink()
        return self.directory


def summed(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").agg(sql.count("*").alias("n"), sql.sum("v").alias("total"))


class Adoption:
    def __init__(self, job: JobUnderTest) -> None:
        self.job = job
        self.savepoint = job.root / "savepoint"
        self._handler = RequestHandler(job.spark, job.root / "scratch")

    def ask(self, path: Path) -> Adopted | Refusal:
        before = _files(path)
        asked = AdoptCheckpoint(
            path=str(path),
            graph=self.job.document,
            parallelism=self.job.graph.parallelism,
            data_root=str(self.job.root),
            savepoint=uuid4(),
            target=self.savepoint.as_uri(),
        )
        answer = self._handler.answer(Question(id=1, within_ms=120_000, body=asked))
        assert isinstance(answer, Adopted | Refusal), answer
        assert _files(path) == before
        assert list((self.job.root / "scratch" / "adoptions").glob("*")) == []
        return answer

    def adopted(self, path: Path) -> Adopted:
        answer = self.ask(path)
        assert isinstance(answer, Adopted), answer
        return answer

    def refused(self, path: Path) -> str:
        answer = self.ask(path)
        assert isinstance(answer, Refusal), answer
        assert answer.reason == "not_adoptable"
        assert not self.savepoint.exists()
        return answer.message


def _files(directory: Path) -> dict[str, tuple[int, int]]:
    """All but the state, in which Spark's maintenance may still be at work for the query."""
    return {
        str(path): (path.stat().st_mtime_ns, path.stat().st_size)
        for path in directory.rglob("*")
        if path.is_file() and "state" not in path.relative_to(directory).parts
    }


@pytest.mark.parametrize(
    ("provider", "version", "partitions", "is_rewritten"),
    [
        pytest.param(HDFS_BACKED, 1, 5, True, marks=pytest.mark.long),
        pytest.param(ROCKSDB, 1, 2, True, marks=pytest.mark.long),
        pytest.param(ROCKSDB, 2, 5, True, marks=pytest.mark.long),
        (ROCKSDB, 2, 2, False),
    ],
)
def test_a_running_sum_goes_on_exactly_where_the_plain_query_was(
    job: JobUnderTest, provider: str, version: int, partitions: int, is_rewritten: bool
) -> None:
    job.define(files_source(), SUMS, files_sink("sums"))
    feed(job, 0, 4)
    plain = PlainQuery(job, provider, version, partitions)
    checkpoint = plain.run(summed(plain.rows()), "update")

    adoption = Adoption(job)
    adopted = adoption.adopted(checkpoint)

    assert adopted == Adopted(
        batch=3, provider=provider, partitions=partitions, was_rewritten=is_rewritten
    )
    manifest = manifests.from_json((adoption.savepoint / "manifest.json").read_text())
    assert manifest.regions["out"].offsets == {"rows": {"logOffset": 3}}  # type: ignore[index]
    assert {pointer.subtask for pointer in manifest.regions["out"].pointers} == {0, 1}  # type: ignore[index]
    # A job goes on: with the file of the batch that was not committed, and with what comes.
    shutil.rmtree(checkpoint)
    job.start(savepoint=adoption.savepoint)
    feed(job, 5, FILES - 1)
    wait_until_read(job, FILES)
    assert sums_seen(job) == sums_after(FILES)
    check_updates_are_seen_once(job)
    job.checkpoint(1)


@pytest.mark.parametrize(
    "kind",
    [
        "tumbling",
        pytest.param("session", marks=pytest.mark.long),
        pytest.param("no key", marks=pytest.mark.long),
    ],
)
def test_open_windows_and_a_state_without_a_key_are_taken_over(
    job: JobUnderTest, kind: str
) -> None:
    window = {"session": "3s"} if kind == "session" else {"tumbling": "10s"}
    keyed: Row = {**SUMS, "op": "window", "time": "ts", "window": window}
    if kind == "no key":
        keyed = {**SUMS, "key": []}
    job.define(files_source(**PATIENT_SOURCE), keyed, files_sink("sums"))
    feed(job, 0, 4)
    plain = PlainQuery(job, HDFS_BACKED, 1, 3)
    rows = plain.rows("1 hour")
    counted = [sql.count("*").alias("n"), sql.sum("v").alias("total")]
    if kind == "no key":
        checkpoint = plain.run(rows.groupBy().agg(*counted), "update")
    else:
        made = sql.window if kind == "tumbling" else sql.session_window
        size = "10 seconds" if kind == "tumbling" else "3 seconds"
        checkpoint = plain.run(rows.groupBy(made("ts", size), "k").agg(*counted), "append")

    adoption = Adoption(job)
    adoption.adopted(checkpoint)
    job.start(savepoint=adoption.savepoint)
    feed(job, 5, FILES - 1)
    wait_until_read(job, FILES)

    expected = (len(ALL_ROWS), sum(row["v"] for row in ALL_ROWS))
    if kind == "no key":
        newest = max(job.output(), key=lambda row: row["n"])
        assert (newest["n"], newest["total"]) == expected
        return
    assert job.running is not None
    regions = [one for one in job.running.regions if isinstance(one, RegionQuery)]
    assert all(region.ask_to_stop() for region in regions)
    assert len(list(await_ends(regions))) == len(regions)
    assert drain(regions, lambda region, batch: None)
    stop_at_once(regions)
    output = job.output()
    assert (sum(r["n"] for r in output), sum(r["total"] for r in output)) == expected


def test_a_query_without_state_is_adopted(job: JobUnderTest) -> None:
    job.define(files_source(), files_sink("rows"))
    feed(job, 0, 2)
    plain = PlainQuery(job, HDFS_BACKED, 1, 3)
    checkpoint = plain.run(plain.rows(), "append", killed=False)

    adoption = Adoption(job)
    assert adoption.adopted(checkpoint).was_rewritten is False
    job.start(savepoint=adoption.savepoint)
    feed(job, 3, 4)
    wait_until_read(job, 5)
    ids = sorted(row["id"] for row in job.output())
    assert ids == [row["id"] for row in ALL_ROWS[3 * 40 : 5 * 40]]


@pytest.fixture
def a_checkpoint(job: JobUnderTest) -> tuple[JobUnderTest, Path]:
    feed(job, 0, 1)
    plain = PlainQuery(job, HDFS_BACKED, 1, 2)
    return job, plain.run(summed(plain.rows()), "update", killed=False)


def _vertices(**changes: Any) -> list[Row]:
    return [files_source(), {**SUMS, **changes}, files_sink("sums")]


def test_a_graph_that_does_not_fit_is_refused_with_both_sides(
    a_checkpoint: tuple[JobUnderTest, Path],
) -> None:
    job, checkpoint = a_checkpoint
    elsewhere = job.root / "elsewhere"
    elsewhere.mkdir()
    both = {"id": "both", "op": "union", "inputs": ["rows", "more"]}
    for vertices, told in (
        (
            [files_source(), files_source(id="more"), both, files_sink("both")],
            "the checkpoint has 1 stateful operator (stateStoreSave), the graph has 0 keyed",
        ),
        (
            [files_source(path="elsewhere"), SUMS, files_sink("sums")],
            f"vertex rows reads {elsewhere}: Spark knows files by their paths",
        ),
        (
            _vertices(aggregate={"n": "count(*)"}),
            "Spark does not go on from it with this graph: [STATE_STORE_VALUE_SCHEMA",
        ),
        (
            _vertices(aggregate={"n": "count(*)", "total": "sum(nothing)"}),
            "vertex sums: aggregate.total: [UNRESOLVED_COLUMN",
        ),
        (
            [*_vertices(), files_sink("rows", id="second", path="second")],
            "a Spark checkpoint is of one query, the graph has 2 (out, second)",
        ),
    ):
        job.define(*vertices)
        assert told in Adoption(job).refused(checkpoint)


def test_what_is_no_checkpoint_or_has_nothing_committed_is_refused(
    a_checkpoint: tuple[JobUnderTest, Path],
) -> None:
    job, checkpoint = a_checkpoint
    job.define(*_vertices())
    adoption = Adoption(job)
    assert "is no Spark checkpoint directory: it has no metadata" in adoption.refused(
        job.root / "in"
    )
    empty = job.root / "empty"
    shutil.copytree(checkpoint, empty)
    for commit in (empty / "commits").iterdir():
        commit.unlink()
    assert "has no committed batch" in adoption.refused(empty)
