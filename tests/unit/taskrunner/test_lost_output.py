"""Staged output is lost before the first checkpoint: the job starts from its restore point."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest

from jobmanager.core.graph import graph_document
from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId
from jobmanager.core.snapshots.layout import LINEAGE
from jobmanager.protocol.messages import RestorePointMessage, Run
from taskrunner.preparation import Preparation
from taskrunner.snapshots.fence import Fence
from taskrunner.snapshots.layout import JobLayout, layout_of
from taskrunner.snapshots.snapshot import AttemptContext, Snapshots
from taskrunner.spark.session.session import WarmSession
from tests.support.builders import a_document_with
from tests.unit.taskrunner.builders import JOB, OUT, SINK, spark_directory
from tests.unit.taskrunner.test_sink_directory import a_sink, write

PARENT, CHILD = JobId(UUID(int=3)), JOB
KAFKA = {
    "connector": "kafka",
    "servers": "localhost:9092",
    "topic": "revenue",
    "format": "json",
    "guarantee": "exactly_once",
    "path": None,
}


class Abandoned(Exception):
    """The preparation has come to the point at which Spark starts."""


def a_restore_point(root: Path, graph: dict[str, Any]) -> RestorePointMessage:
    """A savepoint of another job at batch 2."""
    layout = layout_of(root.as_uri(), PARENT)
    layout.directory.mkdir(parents=True)
    spark = spark_directory(layout, 1)
    for batch in range(3):
        spark.commit(batch)
    first = AttemptNumber(1)
    context = AttemptContext(PARENT, first, graph_document.parse(graph), 2, "4.3.0", graph, ())
    target = root / "savepoint"
    Snapshots(context, layout, Fence(layout, first)).take_savepoint(
        CheckpointNumber(4),
        {OUT: layout.spark_checkpoint_dir(first, OUT)},
        datetime(2026, 11, 18, tzinfo=UTC),
        UUID(int=9),
        target.as_uri(),
    )
    return RestorePointMessage(root=target.as_uri(), manifest="manifest.json", name="savepoint 9")


def stage_in_files(root: Path, layout: JobLayout) -> Path:
    """Holds the output of batch 3, and says in which file."""
    sink = a_sink(root)
    write(sink, batch=3, parts=1, held=True)
    [file] = (one for one in root.glob(".sink.headgate/*/*/staging/*/*") if one.is_file())
    return file


def stage_for_kafka(root: Path, layout: JobLayout) -> Path:
    directory = layout.transactions(SINK)
    file = directory / "staging" / "1-3-abc" / "part-0.parquet"
    file.parent.mkdir(parents=True)
    file.write_text("rows")
    record = {"batch": 3, "rows": 1, "attempt": 1, "files": [["1-3-abc/part-0.parquet", 4]]}
    (directory / "3.json").write_text(json.dumps(record))
    return file


@pytest.mark.parametrize("is_lost", [True, False])
@pytest.mark.parametrize("connector", ["files", "kafka"])
def test_the_restore_point_is_opened_where_a_sink_lost_what_it_staged(
    tmp_path: Path, connector: str, is_lost: bool
) -> None:
    # Given a job that continued a savepoint, whose attempt committed batches from 3 on; Spark has
    # cleaned up the batch of the savepoint meanwhile
    changes = KAFKA if connector == "kafka" else {"path": str(tmp_path / "sink")}
    graph = a_document_with("out", **changes)
    point = a_restore_point(tmp_path, graph)
    layout = layout_of(tmp_path.as_uri(), CHILD)
    layout.directory.mkdir(parents=True)
    spark = spark_directory(layout, 1)
    spark.snapshot(version=4, shared=["000008"])
    for batch in (3, 4):
        spark.commit(batch)
    stage = stage_for_kafka if connector == "kafka" else stage_in_files
    staged = stage(tmp_path, layout)
    if is_lost:
        staged.write_bytes(b"")
    order = Run(
        graph=graph,
        parallelism=2,
        spark_master="local[1]",
        storage=tmp_path.as_uri(),
        data_root=str(tmp_path),
        checkpoint=None,
        restore_point=point,
    )
    no_barriers = cast(Any, None)

    def abandon() -> None:
        raise Abandoned

    # When the next attempt looks for the state to start from
    second = Preparation(CHILD, AttemptNumber(2), order, WarmSession(), no_barriers)
    with pytest.raises(Abandoned):
        second.prepare(abandon)

    # Then it has opened the restore point if there is no other state: the lineage is its trace
    assert (layout.directory / LINEAGE).exists() is is_lost
