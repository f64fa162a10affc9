from typing import Any

import pytest
from rich.console import Console

from jobmanager.client import answers, display


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (None, "-"),
        (-1, "-"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1_500, "1.5 s"),
        (61_000, "1 m 1 s"),
        (7_260_000, "2 h 1 m"),
    ],
)
def test_durations_are_shown_in_the_unit_that_fits(milliseconds: int | None, shown: str) -> None:
    assert display.duration(milliseconds) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [(None, "-"), (0, "0 B"), (999, "999 B"), (1_500, "1.5 KB"), (2_000_000, "2.0 MB")],
)
def test_sizes_are_shown_in_the_unit_that_fits(count: int | None, shown: str) -> None:
    assert display.size(count) == shown


def test_times_are_shown_in_utc() -> None:
    assert display.moment(1_794_793_562_780) == "2026-11-16 01:46:02"
    assert display.moment(-1) == "-"


@pytest.mark.parametrize(
    ("ours", "shown"),
    [("running", "RUNNING"), ("stalled", "STALLED"), ("degraded", "DEGRADED")],
)
def test_a_job_that_only_seems_to_run_is_listed_as_what_it_is(ours: Any, shown: str) -> None:
    console = Console(width=200)
    job: answers.JobLine = {
        "jid": "a" * 32,
        "name": "revenue",
        "jobType": "STREAMING",
        "schedulerType": "Headgate",
        "state": "RUNNING",
        "start-time": 0,
        "end-time": -1,
        "duration": 1000,
        "last-modification": 0,
        "tasks": {},
        "pending-operators": 0,
        "headgate-state": ours,
        "headgate-meta": {"owner": None, "description": None, "runbook": None, "labels": {}},
    }

    with console.capture() as captured:
        console.print(display.jobs([job]))

    assert shown in captured.get()


def test_the_rounds_of_a_loop_are_shown_once_though_two_regions_share_it() -> None:
    loop = {"vertex": "ranks", "iteration": 7, "max_iterations": 50, "rows": 1234}
    loop |= {"duration_ms": 310, "is_converged": True, "is_running": False}
    status: Any = {
        **dict.fromkeys(("desired", "reason", "since", "attempt", "restarts"), "-"),
        "lag": None,
        "state": "RUNNING",
        "runner": None,
        "last_checkpoint": None,
        "restored": [],
        "region_states": [{"region": "a", "loops": [loop]}, {"region": "b", "loops": [loop]}],
    }
    console = Console(width=180)

    with console.capture() as captured:
        for one in display.job("j", "name", status, {}):
            console.print(one)

    lines = [line.split() for line in captured.get().splitlines() if "ranks" in line]
    assert lines == [["ranks", "7", "50", "1234", "310", "ms", "converged"]]
