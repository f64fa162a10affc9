"""Savepoints on a fabricated Spark directory: written whole or not at all, and checked."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import pytest

from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId
from jobmanager.core.snapshots import manifest as manifests
from jobmanager.core.snapshots.manifest import Ancestor, Manifest
from jobmanager.protocol.messages import RestorePointMessage
from taskrunner.core.acks import acks_of
from taskrunner.core.failures import Cause, classify
from taskrunner.core.restore import FromSavepoint
from taskrunner.snapshots import durable
from taskrunner.snapshots.clone import Clones, Past
from taskrunner.snapshots.fence import Fence, Superseded
from taskrunner.snapshots.layout import JobLayout
from taskrunner.snapshots.restore_source import RestoreRefused, RestoreSource, open_restore_source
from taskrunner.snapshots.snapshot import AttemptContext, Snapshots
from taskrunner.snapshots.spark_log import SparkLog
from taskrunner.snapshots.spark_state import MissingState, state_of
from tests.unit.taskrunner.builders import JOB, OUT, SINK, SparkDirectory, a_graph, spark_directory

NOW = datetime(2026, 11, 16, tzinfo=UTC)
GRAPH = {"name": "orders"}
PARENT = Ancestor(JobId(UUID(int=3)), {SINK: 1})


class Crash(BaseException):
    """The process is gone."""


def no_crash(step: str) -> None:
    pass


def take(layout: JobLayout, target: Path, after_step: Callable[[str], None] = no_crash) -> Manifest:
    attempt = AttemptNumber(1)
    subject = AttemptContext(JOB, attempt, a_graph(), 2, "4.3.0", GRAPH, (PARENT,))
    snapshots = Snapshots(subject, layout, Fence(layout, attempt))
    directories = {OUT: layout.spark_checkpoint_dir(attempt, OUT)}
    checkpoint = CheckpointNumber(4)
    return snapshots.take_savepoint(
        checkpoint, directories, NOW, UUID(int=9), target.as_uri(), after_step
    ).manifest


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()] if directory.exists() else []


@pytest.fixture
def spark(layout: JobLayout) -> SparkDirectory:
    spark = spark_directory(layout, 1)
    for batch in range(4):
        spark.commit(batch)
    spark.snapshot(version=2, shared=["000008"])
    spark.begin(4)
    return spark


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "not" / "there" / "savepoint-1"


def opened(target: Path, graph: JobGraph | None = None, **fields: Any) -> RestoreSource:
    point = RestorePointMessage(
        root=target.as_uri(), manifest="manifest.json", name="savepoint 9", **fields
    )
    return open_restore_source(point, graph or a_graph())


def test_a_savepoint_has_all_its_files_in_its_own_directory(
    layout: JobLayout, spark: SparkDirectory, target: Path
) -> None:
    manifest = take(layout, target)

    assert manifests.from_json((target / "manifest.json").read_text()) == manifest
    found = {p.relative_to(target).as_posix() for p in target.rglob("*") if p.is_file()}
    assert found == {file.location for file in manifest.files()} | {"manifest.json"}
    for file in manifest.files():
        path = target / file.location
        assert (path.stat().st_size, durable.sha256(path)) == (file.bytes, file.sha256)
    assert "out/sources/0/0" in found
    assert names(target.parent) == ["savepoint-1"]


def test_a_savepoint_says_its_graph_and_its_lineage(
    layout: JobLayout, spark: SparkDirectory, target: Path
) -> None:
    info = take(layout, target).savepoint

    assert info is not None
    assert (info.id, info.graph) == (UUID(int=9), GRAPH)
    assert info.lineage == (PARENT, Ancestor(JOB, {SINK: 3}))


def test_its_acks_point_into_its_own_directory(
    layout: JobLayout, spark: SparkDirectory, target: Path
) -> None:
    acks = acks_of(a_graph(), take(layout, target), 0)

    assert acks.manifest == "manifest.json"
    pointers = [ack.pointer for ack in acks.acks if ack.kind == "state"]
    assert all(pointer and (target / pointer).is_file() for pointer in pointers)


@pytest.mark.parametrize("step", ["kept", "manifest"])
def test_a_crash_in_the_middle_leaves_no_savepoint_and_the_next_try_succeeds(
    layout: JobLayout, spark: SparkDirectory, target: Path, step: str
) -> None:
    def crash(name: str) -> None:
        assert not target.exists(), "a half-written savepoint has its name"
        if name == step:
            raise Crash

    with pytest.raises(Crash):
        take(layout, target, crash)
    assert not target.exists()

    take(layout, target)
    assert names(target.parent) == ["savepoint-1"]


def test_a_failure_leaves_nothing_behind(
    layout: JobLayout, spark: SparkDirectory, target: Path
) -> None:
    (spark.path / "state/0/1/SSTs/000008-1.sst").unlink()

    with pytest.raises(MissingState):
        take(layout, target)
    assert names(target.parent) == []


def test_a_directory_that_exists_is_not_touched(
    layout: JobLayout, spark: SparkDirectory, target: Path
) -> None:
    target.mkdir(parents=True)

    with pytest.raises(FileExistsError, match="exists already"):
        take(layout, target)
    assert names(target) == []


def test_a_superseded_attempt_leaves_no_savepoint(
    layout: JobLayout, spark: SparkDirectory, target: Path
) -> None:
    def replaced(step: str) -> None:
        Fence(layout, AttemptNumber(2)).raise_epoch()

    with pytest.raises(Superseded):
        take(layout, target, replaced)
    assert names(target.parent) == []


def test_on_another_file_system_the_file_is_copied(tmp_path: Path) -> None:
    elsewhere = Path("/dev/shm")  # every Linux has this second file system
    assert elsewhere.stat().st_dev != tmp_path.stat().st_dev
    (tmp_path / "a").write_text("state")
    with TemporaryDirectory(dir=elsewhere) as directory:
        target = Path(directory) / "there" / "b"

        durable.link_or_copy(tmp_path / "a", target)

        assert target.read_text() == "state"


def test_another_job_is_restored_from_it_apart_from_the_savepoint(
    layout: JobLayout, spark: SparkDirectory, target: Path, tmp_path: Path
) -> None:
    manifest = take(layout, target)
    other = JobLayout(tmp_path / "jobs" / UUID(int=8).hex)
    past = Past(origin=opened(target))
    clones = Clones(other, AttemptNumber(1), past)

    choice = clones.choose(OUT)
    clones.draft(OUT, choice)
    clones.finish(OUT)

    clone = other.spark_checkpoint_dir(AttemptNumber(1), OUT)
    assert isinstance(choice, FromSavepoint)
    assert (SparkLog(clone).last_committed(), SparkLog(clone).last_begun()) == (3, 3)
    assert len(state_of(clone, batch=3)) == 2
    assert (clone / "sources/0/0").read_text() == "v1\n1700000000000"
    assert json.loads((clone / "metadata").read_text()) != {"id": "x"}
    assert {f.path for f in manifest.files()} == {
        p.relative_to(clone).as_posix() for p in clone.rglob("*") if p.is_file()
    }
    # and the next attempt goes on from the first, not from the savepoint
    next_choice = Clones(other, AttemptNumber(2), past).choose(OUT)
    assert next_choice.why == "attempt 1 committed batch 3; there is no checkpoint"


def test_rows_of_a_table_are_known_by_where_the_new_job_keeps_them(
    layout: JobLayout, spark: SparkDirectory, target: Path, tmp_path: Path
) -> None:
    old = f"file:///old/jobs/{JOB.hex}/inputs/orders/rows.json"
    log = spark.path / "sources/1/0"
    log.parent.mkdir()
    log.write_text(f'v1\n{{"path":"{old}"}}\n{{"path":"file:///data/rows.json"}}')
    take(layout, target)
    other = JobLayout(tmp_path / "jobs" / UUID(int=8).hex)

    opened(target).clone(OUT, tmp_path / "clone", other)

    new = f"{other.directory.as_uri()}/inputs/orders/rows.json"
    text = (tmp_path / "clone/sources/1/0").read_text()
    assert text == f'v1\n{{"path":"{new}"}}\n{{"path":"file:///data/rows.json"}}'
    assert old in log.read_text(), "the savepoint and the old job are as they were"


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda path: path.unlink(), "out/offsets/3 is missing"),
        (lambda path: os.truncate(path, 3), "out/offsets/3 has 3 bytes instead of"),
        (lambda path: path.write_text(path.read_text()[::-1]), "out/offsets/3 was altered"),
    ],
)
def test_a_damaged_savepoint_is_refused_by_the_name_of_the_file(
    layout: JobLayout,
    spark: SparkDirectory,
    target: Path,
    harm: Callable[[Path], None],
    message: str,
) -> None:
    take(layout, target)
    harm(target / "out/offsets/3")

    with pytest.raises(RestoreRefused, match=f"savepoint 9 cannot be restored: {message}"):
        opened(target)


def test_a_savepoint_without_a_manifest_is_refused(target: Path) -> None:
    with pytest.raises(RestoreRefused, match=r"manifest\.json is missing"):
        opened(target)


def test_a_refused_restore_is_an_invalid_job_and_not_tried_again() -> None:
    failure = classify([Cause("RestoreRefused", "savepoint 9 cannot be restored")], "", None)

    assert (failure.kind, failure.is_restartable) == ("invalid_job", False)


def test_another_number_of_key_groups_is_refused_with_both(
    layout: JobLayout, spark: SparkDirectory, target: Path
) -> None:
    take(layout, target)

    with pytest.raises(
        RestoreRefused, match="max_parallelism is 8 in the state and 12 in the graph"
    ):
        opened(target, a_graph(max_parallelism=12))


def test_another_parallelism_is_no_objection(
    layout: JobLayout, spark: SparkDirectory, target: Path
) -> None:
    take(layout, target)

    assert opened(target, a_graph(parallelism=4)).manifest.parallelism == 2


def changed(change: Callable[[list[dict[str, Any]]], None]) -> JobGraph:
    vertices: list[dict[str, Any]] = [
        {"id": "orders", "op": "source", "connector": "generator", "rows_per_second": 10,
         "columns": {"id": "id", "ts": "ts", "k": "id % 3"},
         "watermark": {"column": "ts", "delay": "1s"}},
        {"id": "counts", "op": "window", "inputs": ["orders"], "key": ["k"], "time": "ts",
         "window": {"tumbling": "2s"}, "aggregate": {"n": "count(*)"}},
        {"id": "out", "op": "sink", "inputs": ["counts"], "connector": "blackhole"},
    ]  # fmt: skip
    change(vertices)
    return a_graph(vertices=vertices)


def without_counts(vertices: list[dict[str, Any]]) -> None:
    vertices.pop(1)
    vertices[1]["inputs"] = ["orders"]


def other_counts(vertices: list[dict[str, Any]]) -> None:
    vertices[1]["id"] = "sums"
    vertices[2]["inputs"] = ["sums"]


def other_sink(vertices: list[dict[str, Any]]) -> None:
    vertices[2]["id"] = "elsewhere"


def other_source(vertices: list[dict[str, Any]]) -> None:
    vertices[0]["id"] = "bids"
    vertices[1]["inputs"] = ["bids"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without_counts, "region out: the state of vertex counts would be left behind"),
        (other_sink, "region out: the offsets would be left behind"),
        (other_source, "region out reads from orders in the state and from bids in the graph"),
        (other_counts, "has keyed state of counts and would have sums"),
    ],
)
def test_state_that_the_graph_has_no_place_for_is_refused_by_name(
    layout: JobLayout,
    spark: SparkDirectory,
    target: Path,
    change: Callable[[list[dict[str, Any]]], None],
    message: str,
) -> None:
    take(layout, target)

    with pytest.raises(RestoreRefused, match=message):
        opened(target, changed(change))


def test_state_is_left_behind_when_that_is_allowed(
    layout: JobLayout, spark: SparkDirectory, target: Path, tmp_path: Path
) -> None:
    take(layout, target)
    opened(target, changed(other_sink), allow_non_restored_state=True)

    origin = opened(target, changed(without_counts), allow_non_restored_state=True)
    origin.clone(OUT, tmp_path / "clone", layout)

    assert (tmp_path / "clone/commits/3").exists()
    assert not (tmp_path / "clone/state").exists()
