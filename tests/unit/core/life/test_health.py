from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.graph.job_graph import Checkpointing
from jobmanager.core.life.health import (
    Diagnosis,
    Health,
    HealthLimits,
    RegionVitals,
    Vitals,
    diagnose,
)
from tests.support.builders import NOW, after

LIMITS = HealthLimits(timedelta(seconds=60), heartbeat_late_after=timedelta(seconds=10))
EVERY_10_S = Checkpointing(
    interval=timedelta(seconds=10),
    timeout=timedelta(minutes=1),
    min_pause=timedelta(),
    retained=3,
    tolerable_failures=0,
)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def vitals(now: datetime = NOW, **changes: Any) -> Vitals:
    """Of a job with nothing wrong."""
    sound = Vitals(
        since=NOW,
        heard_at=now,
        regions=[RegionVitals("out", unmoved=seconds(0), median_batch=seconds(1), batch=7)],
        failed_checkpoints=0,
        checkpointed_at=now,
        checkpointing=EVERY_10_S,
    )
    return replace(sound, **changes)


def a_region(unmoved: float | None, median: float = 1) -> RegionVitals:
    stuck = None if unmoved is None else seconds(unmoved)
    return RegionVitals("out", stuck, seconds(median), 7, "Processing new data")


def test_a_job_that_moves_is_healthy() -> None:
    assert diagnose(vitals(), LIMITS, NOW) == Diagnosis(Health.HEALTHY)


@pytest.mark.parametrize(
    ("unmoved", "median", "health"),
    [
        (60, 1, Health.HEALTHY),
        (61, 1, Health.STALLED),
        (61, 20, Health.HEALTHY),
        (201, 20, Health.STALLED),
        (None, 1, Health.HEALTHY),
    ],
)
def test_a_batch_that_takes_far_longer_than_usual_is_a_stall(
    unmoved: float | None, median: float, health: Health
) -> None:
    found = diagnose(vitals(regions=[a_region(unmoved, median)]), LIMITS, NOW)

    assert found.health is health


def test_a_stall_says_where_and_what_spark_does() -> None:
    found = diagnose(vitals(regions=[a_region(61)]), LIMITS, NOW)

    assert found.reason == (
        "region out has input and has committed nothing after batch 7 for more than 60 s "
        "(Spark: Processing new data)"
    )


def test_one_region_that_stands_still_is_enough() -> None:
    regions = [a_region(0), replace(a_region(100), region="raw")]

    assert diagnose(vitals(regions=regions), LIMITS, NOW).health is Health.STALLED


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"heard_at": after(89)}, "no heartbeat from the runner since 2026-11-16 12:01:29 UTC"),
        ({"failed_checkpoints": 1}, "the last checkpoint failed"),
        ({"failed_checkpoints": 3}, "the last 3 checkpoints failed"),
        (
            {"checkpointed_at": after(9)},
            "no checkpoint has completed since 2026-11-16 12:00:09 UTC",
        ),
        ({"checkpointed_at": None}, "no checkpoint has completed yet"),
    ],
)
def test_what_degrades_a_job(change: dict[str, Any], reason: str) -> None:
    now = after(100)

    assert diagnose(vitals(now, **change), LIMITS, now) == Diagnosis(Health.DEGRADED, reason)


def test_a_new_job_has_time_for_its_first_checkpoint() -> None:
    young = vitals(after(89), checkpointed_at=None)

    assert diagnose(young, LIMITS, after(89)).health is Health.HEALTHY


def test_a_batch_job_takes_no_checkpoints_and_misses_none() -> None:
    batch = vitals(after(9000), checkpointed_at=None, checkpointing=None)

    assert diagnose(batch, LIMITS, after(9000)).health is Health.HEALTHY


def test_what_a_silent_runner_said_last_is_no_stall() -> None:
    silent = vitals(heard_at=NOW, regions=[a_region(100)])

    found = diagnose(silent, LIMITS, after(11))

    assert found.health is Health.DEGRADED
    assert str(found.reason).startswith("no heartbeat")


REGIONS = st.lists(
    st.builds(
        RegionVitals,
        st.sampled_from(["out", "raw"]),
        st.none() | st.integers(0, 500).map(seconds),
        st.integers(0, 30).map(seconds),
        st.none() | st.integers(0, 9),
    ),
    max_size=3,
)
VITALS = st.builds(
    Vitals,
    since=st.integers(0, 200).map(after),
    heard_at=st.integers(0, 300).map(after),
    regions=REGIONS,
    failed_checkpoints=st.integers(0, 3),
    checkpointed_at=st.none() | st.integers(0, 300).map(after),
    checkpointing=st.none() | st.just(EVERY_10_S),
)


@given(VITALS, st.integers(0, 500))
def test_there_is_a_reason_exactly_when_something_is_wrong(found: Vitals, at: int) -> None:
    diagnosis = diagnose(found, LIMITS, after(at))

    assert (diagnosis.reason is None) == (diagnosis.health is Health.HEALTHY)


@given(VITALS, st.integers(0, 500))
def test_a_job_without_input_never_stalls(found: Vitals, at: int) -> None:
    idle = replace(found, regions=[replace(one, unmoved=seconds(0)) for one in found.regions])

    assert diagnose(idle, LIMITS, after(at)).health is not Health.STALLED


@given(VITALS, st.integers(0, 500), st.integers(0, 500))
def test_without_news_nothing_gets_better(found: Vitals, at: int, later: int) -> None:
    now, then = (diagnose(found, LIMITS, after(moment)).health for moment in sorted((at, later)))

    assert now is Health.HEALTHY or then is not Health.HEALTHY


@given(VITALS, st.integers(0, 500))
def test_the_reason_does_not_change_while_nothing_else_does(found: Vitals, at: int) -> None:
    """It is written down when it changes: a running number in it would be written each second."""
    now, later = (diagnose(found, LIMITS, after(at + more)) for more in (0, 1))

    if now.health is later.health and now.reason and later.reason:
        assert set(now.reason.split("; ")) <= set(later.reason.split("; "))
