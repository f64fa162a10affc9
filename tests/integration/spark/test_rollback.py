"""Rescaled, upgraded, rolled back: which batches count, and what is seen of them."""

from typing import cast

import deltalake
import pytest
from pyspark.sql import SparkSession

from jobmanager.core.ids import AttemptNumber
from jobmanager.core.plan.key_groups import Layout
from taskrunner.core.restore import FromAttempt, FromSavepoint, FromScratch
from taskrunner.snapshots.restore_source import RestoreRefused, open_restore_source, read_lineage
from taskrunner.spark.compile.compiler import InvalidVertex
from taskrunner.spark.state.repartition import repartition
from tests.integration.spark.fed_files import (
    ROWS_A_FILE,
    SUMS,
    check_updates_are_seen_once,
    feed,
    files_source,
    sums_after,
    sums_seen,
    wait_until_read,
)
from tests.integration.spark.jobs import (
    OUT,
    JobUnderTest,
    Row,
    files_sink,
    restore_point,
    some_rows,
    table,
)

ALL = {"id": "all", "op": "aggregate", "inputs": ["rows"], "aggregate": SUMS["aggregate"]}


def ids(job: JobUnderTest, path: str = "out") -> list[int]:
    return sorted(row["id"] for row in job.output(path))


def ids_in_table(job: JobUnderTest) -> list[int]:
    path = job.root / "table"
    if not (path / "_delta_log").exists():
        return []
    return sorted(deltalake.DeltaTable(path).to_pyarrow_table().column("id").to_pylist())


def of_files(count: int) -> list[int]:
    return list(range(count * ROWS_A_FILE))


def test_what_a_rolled_back_attempt_published_is_withdrawn(job: JobUnderTest) -> None:
    # Given a job that was rescaled, and published more than its savepoint covers
    feed(job, 0, 2)
    job.define(files_source(), SUMS, files_sink("sums")).start()
    wait_until_read(job, 3)
    savepoint = job.rescale(4)
    feed(job, 3, 4)
    wait_until_read(job, 5)
    assert sums_seen(job) == sums_after(5)
    # When it is rolled back
    (job.root / "in/004.json").rename(job.root / "kept.json")
    job.roll_back(2, savepoint)
    # Then it goes on from the savepoint, not from what the rolled-back attempt committed
    assert job.running is not None
    assert isinstance(job.running.restored[OUT], FromSavepoint)
    assert job.running.repartitioned == []
    wait_until_read(job, 4)
    assert sums_seen(job) == sums_after(4)
    check_updates_are_seen_once(job)
    # and an attempt after that goes on from it, whatever else is there
    job.stop_at_boundary()
    (job.root / "kept.json").rename(job.root / "in/004.json")
    restarted = job.start(base_attempt=3).restored[OUT]
    assert isinstance(restarted, FromAttempt)
    assert restarted.attempt == 3
    wait_until_read(job, 5)
    assert sums_seen(job) == sums_after(5)
    check_updates_are_seen_once(job)


def test_held_output_is_seen_up_to_the_savepoint_and_not_what_was_rolled_back(
    job: JobUnderTest,
) -> None:
    # Given a job that was stopped with a savepoint, and died before it showed what that covers
    feed(job, 0, 1)
    job.define(files_source(), files_sink("rows", visibility="checkpoint")).start()
    wait_until_read(job, 2)
    assert job.output() == []
    # When it goes on
    savepoint = job.rescale(4)
    assert ids(job) == of_files(2)
    # and is rolled back after a checkpoint
    feed(job, 2, 2)
    wait_until_read(job, 3)
    batch = job.checkpoint(1).regions[OUT].batch
    assert job.running is not None
    assert batch is not None
    job.running.held_sinks[OUT][0].show_up_to(batch)
    assert ids(job) == of_files(3)
    job.roll_back(2, savepoint)
    # Then what is seen is what the savepoint covers
    assert ids(job) == of_files(2)
    wait_until_read(job, 3)
    assert ids(job) == of_files(2)


def test_output_that_a_rolled_back_upgrade_put_elsewhere_is_withdrawn_too(
    job: JobUnderTest,
) -> None:
    feed(job, 0, 1)
    old = [files_source(), files_sink("rows")]
    job.define(*old).start()
    wait_until_read(job, 2)
    moved: list[Row] = [
        files_source(),
        files_sink("rows", path="moved"),
        files_sink("rows", id="new", path="new"),
        {"id": "table", "op": "sink", "inputs": ["rows"], "connector": "delta", "path": "table"},
    ]
    savepoint = job.rescale(2, *moved)
    feed(job, 2, 2)
    wait_until_read(job, 3)
    job.wait(lambda: ids(job, "new") == of_files(3))
    job.wait(lambda: ids_in_table(job) == of_files(3))
    assert ids(job, "moved") == of_files(3)[2 * ROWS_A_FILE :]

    job.roll_back(2, savepoint, *old)

    wait_until_read(job, 3)
    assert ids(job) == of_files(3)
    assert ids(job, "moved") == ids(job, "new") == ids_in_table(job) == []


def test_a_region_without_state_follows_the_parallelism_too(job: JobUnderTest) -> None:
    feed(job, 0, 0)
    job.define(files_source(), files_sink("rows")).start()
    wait_until_read(job, 1)

    job.rescale(4)

    feed(job, 1, 1)
    wait_until_read(job, 2)
    assert ids(job) == of_files(2)
    assert job.running is not None
    assert job.running.repartitioned == []
    assert planned_with(job) == "4"


def planned_with(job: JobUnderTest) -> str:
    batch = job.log().last_committed()
    assert batch is not None
    return str(job.log().offsets(batch).metadata["conf"]["spark.sql.shuffle.partitions"])


@pytest.mark.long
def test_rescaled_at_once_again_with_nothing_read_in_between(job: JobUnderTest) -> None:
    feed(job, 0, 1)
    named = {"id": "named", "op": "map", "inputs": ["all"], "add": {"k": "'all'"}}
    both = {"id": "both", "op": "union", "inputs": ["sums", "named"]}
    job.define(files_source(), SUMS, ALL, named, both, files_sink("both")).start()
    wait_until_read(job, 2)

    for parallelism in (4, 1, 3, 2):
        job.rescale(parallelism)
    feed(job, 2, 2)
    wait_until_read(job, 3)

    everything = {"all": tuple(map(sum, zip(*sums_after(3).values(), strict=True)))}
    assert sums_seen(job) == sums_after(3) | everything
    check_updates_are_seen_once(job)


def test_a_region_that_has_had_no_batch_starts_at_the_new_parallelism(job: JobUnderTest) -> None:
    job.define(files_source(), SUMS, files_sink("sums"))
    job.attempt = AttemptNumber(1)  # which has done nothing yet
    savepoint = job.savepoint()
    job.define(files_source(), SUMS, files_sink("sums"), parallelism=4)
    feed(job, 0, 1)

    started = job.start(savepoint=savepoint, base_attempt=2)

    wait_until_read(job, 2)
    assert isinstance(started.restored[OUT], FromScratch)
    assert sums_seen(job) == sums_after(2)
    assert planned_with(job) == "4"


@pytest.mark.long
def test_the_savepoint_is_as_it_was_and_its_lineage_has_each_job_once(job: JobUnderTest) -> None:
    # Given a job that was started from another's savepoint, and rescaled twice
    feed(job, 0, 1)
    job.define(files_source(), SUMS, files_sink("sums")).start()
    wait_until_read(job, 2)
    job.stop_at_boundary()
    parents = job.savepoint("of the parent")
    child = job.successor()
    child.start(savepoint=parents)
    feed(job, 2, 2)
    wait_until_read(child, 3)
    first = child.rescale(4)
    feed(job, 3, 3)
    wait_until_read(child, 4)
    second = child.rescale(1)
    child.stop_at_boundary()
    # Then every file of each savepoint is what its manifest says
    origins = [
        open_restore_source(restore_point(one), child.graph) for one in (parents, first, second)
    ]
    # and the job's own batches go on from the parent's
    lineages = [[one.job for one in origin.manifest.lineage] for origin in origins]
    assert lineages == [[job.id], [job.id, child.id], [job.id, child.id]]
    assert [one.job for one in read_lineage(child.layout)] == [job.id]
    assert sums_seen(job) == sums_after(4)
    check_updates_are_seen_once(job)


@pytest.mark.parametrize("parallelism", [1, 4])
def test_another_job_starts_from_a_savepoint_at_its_own_parallelism(
    job: JobUnderTest, parallelism: int
) -> None:
    feed(job, 0, 1)
    job.define(files_source(), SUMS, files_sink("sums")).start()
    wait_until_read(job, 2)
    job.stop_at_boundary()
    savepoint = job.savepoint()
    job.lose_everything()
    other = job.successor()
    other.define(files_source(), SUMS, files_sink("sums"), parallelism=parallelism)

    why = other.start(savepoint=savepoint).restored[OUT].why

    feed(job, 2, 3)
    wait_until_read(other, 4)
    other.stop_at_boundary()
    assert why.endswith(f"its state was repartitioned from 2 to {parallelism}")
    assert sums_seen(other) == sums_after(4)
    check_updates_are_seen_once(other)


def test_a_region_that_had_given_everything_stays_so(job: JobUnderTest) -> None:
    windows = {**SUMS, "op": "window", "time": "ts", "window": {"tumbling": "10s"}}
    job.define(table(some_rows(100)), windows, files_sink("sums")).run()
    before = job.output()
    savepoint = job.savepoint()
    job.define(*job.document["vertices"], parallelism=4)

    started = job.start(savepoint=savepoint, base_attempt=2)
    job.finish()

    assert started.restored[OUT].why.endswith("its state was repartitioned from 2 to 4")
    assert sum(row["n"] for row in before) == 100
    assert job.output() == before


def test_an_upgrade_cannot_change_rows_that_were_read(job: JobUnderTest) -> None:
    job.define(table(some_rows(10)), files_sink("rows")).run()
    savepoint = job.savepoint()
    job.define(table(some_rows(11)), files_sink("rows"))

    with pytest.raises(InvalidVertex, match="vertex rows: its rows are not those that the job"):
        job.start(savepoint=savepoint, base_attempt=2)


class OldSpark:
    """A Spark from before there was a rewrite of state."""

    version = "4.1.0"


def test_a_spark_that_cannot_rewrite_state_is_said_to_be_one(job: JobUnderTest) -> None:
    feed(job, 0, 0)
    job.define(files_source(), SUMS, files_sink("sums")).start()
    wait_until_read(job, 1)
    job.stop_at_boundary()

    with pytest.raises(RestoreRefused, match=r"Spark 4\.1\.0 cannot rewrite state for parallelism"):
        repartition(cast(SparkSession, OldSpark()), job.spark_dir(), [Layout.HASHED], 4)
