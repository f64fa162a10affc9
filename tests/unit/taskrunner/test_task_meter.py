"""What Spark measured of its tasks, added up by task and subtask."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.ids import VertexId
from jobmanager.core.plan.job_plan import Task
from jobmanager.core.progress import SubtaskProgress
from taskrunner.core.last_minute import SPAN, LastMinute
from taskrunner.core.spark_stages import StageRole
from taskrunner.core.task_meter import BatchWritten, SparkJobRun, SparkTask, StageRun, TaskMeter

BIDS = Task(VertexId("bids"), (VertexId("bids"),), 2)
REVENUE = Task(VertexId("revenue"), (VertexId("revenue"), VertexId("out")), 2)
ROLES = (
    StageRole(BIDS, reads_source=True, is_last=False),
    StageRole(REVENUE, reads_source=False, is_last=True),
)
LAST_RDD = 20


def source_task(partition: int, rows: int) -> SparkTask:
    return SparkTask(
        partition,
        run_ms=10,
        input_records=rows,
        shuffle_write_records=rows,
        shuffle_write_bytes=8 * rows,
    )


def window_task(partition: int, rows: int) -> SparkTask:
    return SparkTask(partition, run_ms=30, shuffle_read_records=rows, shuffle_read_bytes=8 * rows)


def a_job(
    sources: Sequence[SparkTask], windows: Sequence[SparkTask], *, ended_at_ms: int = 1000
) -> SparkJobRun:
    return SparkJobRun(
        0,
        # Spark lists them in any order
        (
            StageRun(len(windows), (15, LAST_RDD), tuple(windows)),
            StageRun(len(sources), (7, 12), tuple(sources)),
        ),
        ended_at_ms,
    )


def measured(*jobs: SparkJobRun, ended_at_ms: int = 1000) -> list[SubtaskProgress]:
    meter = TaskMeter(0.0)
    meter.learn(ROLES)
    meter.add(BatchWritten(0, LAST_RDD, ended_at_ms), jobs)
    return meter.read(10.0, 1, 0)


def of(found: list[SubtaskProgress], vertex: str) -> list[SubtaskProgress]:
    return [one for one in found if one.vertex == vertex]


def test_partition_i_of_a_keyed_stage_is_subtask_i() -> None:
    job = a_job([source_task(0, 5), source_task(1, 6)], [window_task(1, 4), window_task(0, 7)])

    windows = of(measured(job), "revenue")

    assert [(one.subtask, one.records_in, one.bytes_in) for one in windows] == [
        (0, 7, 56),
        (1, 4, 32),
    ]
    assert [one.busy_ms for one in windows] == [30, 30]
    assert [one.busy_ms_per_second for one in windows] == [3.0, 3.0]
    assert windows[0].records_in_per_second == 0.7


def test_a_source_with_other_partitions_than_subtasks_is_measured_as_a_whole() -> None:
    job = a_job([source_task(n, 5) for n in range(3)], [window_task(0, 15), window_task(1, 0)])

    [source] = of(measured(job), "bids")

    assert source.subtask is None
    assert (source.records_in, source.records_out, source.bytes_out) == (15, 15, 120)
    assert source.busy_ms == 30


def test_bytes_that_spark_does_not_count_are_unknown() -> None:
    job = a_job([source_task(0, 5), source_task(1, 6)], [window_task(0, 11), window_task(1, 0)])

    assert [one.bytes_in for one in of(measured(job), "bids")] == [None, None]
    assert [one.bytes_in_per_second for one in of(measured(job), "bids")] == [None, None]


def test_rows_that_a_sink_does_not_count_are_unknown() -> None:
    job = a_job([source_task(0, 5), source_task(1, 6)], [window_task(0, 11), window_task(1, 0)])
    meter = TaskMeter(0.0)
    meter.learn(ROLES)
    meter.add(BatchWritten(0, LAST_RDD, 1000), [job])

    assert [one.records_out for one in of(meter.read(1.0, 11, 0), "revenue")] == [0, 0]
    assert [one.records_out for one in of(meter.read(2.0, 11, 3), "revenue")] == [None, None]


def test_a_batch_that_a_sink_reads_twice_has_its_rows_once_and_its_time_twice() -> None:
    job = a_job([source_task(0, 5), source_task(1, 6)], [window_task(0, 7), window_task(1, 4)])
    again = a_job([], [window_task(0, 7), window_task(1, 4)])

    windows = of(measured(job, again), "revenue")

    assert [(one.records_in, one.busy_ms) for one in windows] == [(7, 60), (4, 60)]


def test_a_job_that_does_not_compute_the_batch_is_nobodys_work() -> None:
    other = SparkJobRun(0, (StageRun(2, (1, 2), (source_task(0, 9), source_task(1, 9))),), 1000)

    assert measured(other) == []


def test_a_job_of_another_plan_is_nobodys_work() -> None:
    job = SparkJobRun(0, (StageRun(2, (LAST_RDD,), (source_task(0, 9), source_task(1, 9))),), 1000)

    assert measured(job) == []


def test_a_task_that_failed_has_run_and_has_no_rows() -> None:
    failed = SparkTask(0, run_ms=5, shuffle_read_records=9, has_succeeded=False)
    job = a_job(
        [source_task(0, 5), source_task(1, 6)], [failed, window_task(0, 7), window_task(1, 4)]
    )
    job = SparkJobRun(0, (StageRun(2, (15, LAST_RDD), job.stages[0].tasks), job.stages[1]), 1000)

    windows = of(measured(job), "revenue")

    assert [(one.records_in, one.busy_ms) for one in windows] == [(7, 35), (4, 30)]


def test_a_batch_waits_for_its_sink_after_its_last_task() -> None:
    job = a_job([source_task(0, 5), source_task(1, 6)], [window_task(0, 7), window_task(1, 4)])

    found = measured(job, ended_at_ms=1400)

    assert {one.backpressured_ms for one in found} == {400}
    assert {one.backpressured_ms_per_second for one in found} == {40.0}


def test_a_rate_is_that_of_the_last_minute() -> None:
    minute: LastMinute[str] = LastMinute(0.0)

    assert minute.rates(10.0, {"rows": 100}) == {"rows": 10.0}
    assert minute.rates(60.0, {"rows": 100}) == {"rows": 100 / 60}
    assert minute.rates(70.0, {"rows": 160}) == {"rows": 1.0}
    assert minute.rates(130.0, {"rows": 160}) == {"rows": 0.0}


steps = st.lists(st.tuples(st.floats(0.1, 30), st.integers(0, 10_000)), min_size=1, max_size=60)


@given(steps)
def test_a_rate_never_exceeds_the_fastest_growth_and_forgets_after_a_minute(
    grown: list[tuple[float, int]],
) -> None:
    minute: LastMinute[str] = LastMinute(0.0)
    at, rows, fastest = 0.0, 0, 0.0
    for seconds, more in grown:
        at, rows, fastest = at + seconds, rows + more, max(fastest, more / seconds)
        rate = minute.rates(at, {"rows": rows})["rows"]
        assert 0 <= rate <= fastest * 1.001 + 0.001
    later = [minute.rates(at + n * SPAN, {"rows": rows})["rows"] for n in (1, 2, 3)]
    assert later[-1] == 0


batches = st.lists(
    st.tuples(
        st.lists(st.integers(0, 1000), min_size=1, max_size=5),
        st.integers(0, 1000),
        st.integers(0, 1000),
    ),
    min_size=1,
    max_size=10,
)


@given(batches)
def test_nothing_is_lost_and_nothing_counted_twice(told: list[tuple[list[int], int, int]]) -> None:
    meter = TaskMeter(0.0)
    meter.learn(ROLES)
    for number, (sources, first, second) in enumerate(told):
        job = a_job(
            [source_task(n, rows) for n, rows in enumerate(sources)],
            [window_task(0, first), window_task(1, second)],
        )
        meter.add(BatchWritten(number, LAST_RDD, 1000), [job])
    found = meter.read(60.0, 1, 0)

    read = sum(sum(sources) for sources, _, _ in told)
    assert sum(one.records_in or 0 for one in of(found, "bids")) == read
    assert sum(one.records_out or 0 for one in of(found, "bids")) == read
    assert [one.records_in for one in of(found, "revenue")] == [
        sum(first for _, first, _ in told),
        sum(second for _, _, second in told),
    ]
    by_subtask = all(len(sources) == BIDS.parallelism for sources, _, _ in told)
    assert [one.subtask for one in of(found, "bids")] == ([0, 1] if by_subtask else [None])
