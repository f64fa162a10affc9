"""What is known of tasks: never more than was reported."""

from jobmanager.core.graph import graph_document
from jobmanager.core.plan.job_plan import Plan, Task, plan_of
from jobmanager.core.progress import RegionProgress, SourceProgress, SubtaskProgress
from jobmanager.core.task_figures import (
    UNKNOWN,
    percentiles,
    sources_of,
    subtask_figures,
    task_figures,
    total,
    watermark_of,
)
from tests.support.builders import NOW, a_document

MEASURED = [
    SubtaskProgress(
        vertex="revenue", subtask=0, records_in=30, busy_ms=400, busy_ms_per_second=250.0
    )
]


def a_plan(**changes: object) -> Plan:
    return plan_of(graph_document.parse(a_document(**changes)))


def task_of(plan: Plan, vertex: str) -> Task:
    return next(one for one in plan.tasks if vertex in one.vertices)


def progress(**changes: object) -> RegionProgress:
    told = {"region": "out", "batch": 1, "is_active": True, "input_rows": 50, "output_rows": 7}
    return RegionProgress(**{**told, **changes})  # type: ignore[arg-type]


def test_nothing_is_known_before_anything_is_reported() -> None:
    plan = a_plan()

    assert subtask_figures(plan, [], task_of(plan, "revenue")) == [UNKNOWN, UNKNOWN]
    assert task_figures(plan, [], task_of(plan, "bids")) == UNKNOWN


def test_a_region_tells_what_its_source_read_and_its_sink_was_given() -> None:
    plan = a_plan()
    source = task_figures(plan, [progress()], task_of(plan, "bids"))
    last = task_figures(plan, [progress()], task_of(plan, "out"))

    assert (source.records_in, source.records_out, source.busy_ms) == (50, None, None)
    assert (last.records_in, last.records_out) == (None, 7)
    assert subtask_figures(plan, [progress()], task_of(plan, "out")) == [UNKNOWN, UNKNOWN]


def test_a_task_with_one_subtask_has_the_figures_of_its_region() -> None:
    plan = a_plan(parallelism=1)

    [only] = subtask_figures(plan, [progress()], task_of(plan, "bids"))

    assert only.records_in == 50


def test_a_subtask_that_had_no_task_yet_has_done_nothing() -> None:
    plan = a_plan()
    first, second = subtask_figures(plan, [progress(subtasks=MEASURED)], task_of(plan, "revenue"))

    assert (first.records_in, second.records_in) == (30, 0)
    assert (first.idle_ms(1000), first.idle_ms_per_second) == (600, 750.0)
    assert total([first, second]).records_in == 30
    assert total([first, UNKNOWN]).records_in is None


def test_the_watermark_is_that_of_tasks_with_input() -> None:
    plan = a_plan()
    told = [progress(watermark=NOW)]

    assert watermark_of(plan, told, task_of(plan, "revenue")) == NOW
    assert watermark_of(plan, told, task_of(plan, "bids")) is None
    assert watermark_of(plan, [progress()], task_of(plan, "revenue")) is None


def test_sources_tell_what_waits() -> None:
    plan = a_plan()
    told = [progress(sources=[SourceProgress("bids", backlog_rows=9)])]

    [(vertex, (reported, rows))] = sources_of(plan, told, task_of(plan, "bids")).items()

    assert (vertex, rows) == ("bids", 50)
    assert reported is not None
    assert reported.backlog_rows == 9
    assert sources_of(plan, told, task_of(plan, "revenue")) == {}


def test_percentiles_are_flinks() -> None:
    assert percentiles([5523, 5620]) == {
        "min": 5523,
        "max": 5620,
        "avg": 5571,
        "sum": 11143,
        "median": 5571,
        "p25": 5523,
        "p75": 5620,
        "p95": 5620,
    }
