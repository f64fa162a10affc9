"""What speaks against a process that served a job."""

from dataclasses import replace
from typing import Any

import pytest

from taskrunner.core.process_traces import ProcessTraces, doubts, thread_names

FIRST = ProcessTraces(
    jvm_threads=("main", "dag-scheduler-event-loop", "Executor task launch worker for task 0.0"),
    python_threads=("MainThread", "log rotation"),
    heap_used_bytes=100,
    heap_max_bytes=1000,
    resident_bytes=100 * 2**20,
    file_bytes=10 * 2**20,
)


def test_a_process_as_it_was_has_no_doubts() -> None:
    assert doubts(FIRST, FIRST) == []


def test_pools_of_spark_may_grow() -> None:
    pools = tuple(f"block-manager-storage-async-thread-pool-{n}" for n in range(60))

    assert doubts(FIRST, replace(FIRST, jvm_threads=FIRST.jvm_threads + pools)) == []


@pytest.mark.parametrize(
    ("left", "doubt"),
    [
        ({"active_jobs": 1}, "1 Spark jobs run"),
        ({"active_queries": 2}, "2 streaming queries run"),
        ({"cached": 1}, "1 data sets are cached"),
        ({"workers": 3}, "3 Python workers run"),
        ({"tables": ("t",)}, "tables and views are left: t"),
        ({"heap_used_bytes": 601}, "of the heap's"),
        ({"resident_bytes": 400 * 2**20}, "Python's memory has grown by 300 MB"),
        ({"file_bytes": 600 * 2**20}, "590 MB of temporary files are left"),
        (
            {"jvm_threads": ("main", "stream execution thread for out [id = 1]")},
            "threads of Spark are left: stream execution thread for out [id = 1]",
        ),
        (
            {"python_threads": ("MainThread", "heartbeats")},
            "threads of the runner are left: heartbeats",
        ),
        (
            {"jvm_threads": tuple(f"leak-{n}" for n in range(40))},
            "Spark has 40 threads more than at first: 40 of 'leak-N'",
        ),
    ],
)
def test_what_a_job_leaves_is_a_doubt(left: dict[str, Any], doubt: str) -> None:
    [found] = doubts(FIRST, replace(FIRST, **left))

    assert doubt in found


def test_names_of_threads_are_read_from_javas_text() -> None:
    text = (
        "[Thread[#1,main,5,main], Thread[#42,Executor task launch worker for task 1.0 in stage 2.0 "
        "(TID 3),5,main], Thread[#7,stream execution thread for out [id = 1, runId = 2],5,main], "
        "Thread[Finalizer,8,system]]"
    )

    assert thread_names(text) == (
        "main",
        "Executor task launch worker for task 1.0 in stage 2.0 (TID 3)",
        "stream execution thread for out [id = 1, runId = 2]",
        "Finalizer",
    )
