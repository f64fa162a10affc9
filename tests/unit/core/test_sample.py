"""Samples are differences of what a runner counts."""

from datetime import UTC, datetime
from typing import Any

from jobmanager.core.progress import RegionProgress, lag_ms
from jobmanager.core.sample import Reading, between, reading_of
from tests.support.builders import NOW, after


def a_region(**said: Any) -> RegionProgress:
    return RegionProgress(region="out", batch=3, is_active=True, **said)


def a_reading(seconds: float, attempt: int = 1, **counted: Any) -> Reading:
    figures = {"input_rows": 0, "output_rows": 0, "batches": 0, "busy_ms": 0, **counted}
    return Reading(attempt=attempt, at=after(seconds), **figures)


def test_a_sample_is_what_was_added_between_two_readings() -> None:
    before = a_reading(0, input_rows=100, output_rows=10, phases_ms={"add_batch_ms": 40})
    now = a_reading(
        10, input_rows=600, output_rows=15, phases_ms={"add_batch_ms": 90}, state_bytes=7, lag_ms=3
    )

    sample = between(before, now)

    assert sample is not None
    assert (sample.span_ms, sample.input_rows, sample.output_rows) == (10_000, 500, 5)
    assert sample.phases_ms == {"add_batch_ms": 50}
    assert (sample.state_bytes, sample.lag_ms, sample.at) == (7, 3, after(10))


def test_readings_of_two_attempts_or_of_one_moment_make_no_sample() -> None:
    assert between(a_reading(0), a_reading(10, attempt=2)) is None
    assert between(a_reading(5), a_reading(5)) is None


def test_a_count_that_went_back_began_anew() -> None:
    sample = between(a_reading(0, input_rows=900), a_reading(10, input_rows=30))

    assert sample is not None
    assert sample.input_rows == 30


def test_what_an_older_runner_does_not_say_is_nothing() -> None:
    reading = reading_of(a_region(input_rows=5, output_rows=1), 1, NOW)

    assert (reading.batches, reading.busy_ms, reading.lag_ms) == (0, 0, None)
    assert set(reading.phases_ms.values()) == {0}


def test_lag_is_from_the_watermark_to_the_last_batch() -> None:
    at = datetime(2026, 11, 16, 12, 0, 5, tzinfo=UTC)

    lag = lag_ms(a_region(watermark=NOW, progressed_at=at))

    assert lag == 5_000
    assert lag_ms(a_region(watermark=None, progressed_at=at)) is None
