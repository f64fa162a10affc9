"""A backlog is read in batches whose size follows the time they take."""

from typing import Any

import pytest

from taskrunner.core import batch_limit
from taskrunner.core.batch_limit import LimitUnit
from tests.integration.spark.fed_files import ALL_ROWS, FILES, feed, files_source
from tests.integration.spark.jobs import JobUnderTest, files_sink


@pytest.fixture(autouse=True)
def small_limits(job: JobUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backlog of all files, and limits that fit: the first is one and a half files."""
    feed(job, 0, FILES - 1)
    size = (job.root / "in" / "000.json").stat().st_size
    small = batch_limit._Range(first=size * 3 // 2, least=size * 3 // 2, most=2**30)
    monkeypatch.setitem(batch_limit._RANGES, LimitUnit.BYTES, small)


def files_by_batch(job: JobUnderTest) -> list[int]:
    """How many input files each batch took, by Spark's own log."""
    entries = (job.log().directory / "sources" / "0").iterdir()
    logged = sorted((one for one in entries if one.name.isdigit()), key=lambda one: int(one.name))
    return [len(one.read_text().splitlines()) - 1 for one in logged]


def read_all(job: JobUnderTest, target: str, **of_the_source: Any) -> None:
    source = {**files_source(), **of_the_source}
    fields = {name: value for name, value in source.items() if value is not None}
    job.define(fields, files_sink("rows"), execution={"target_batch_time": target})
    job.start()
    job.wait(lambda: len(job.output()) >= len(ALL_ROWS))
    job.stop_at_boundary()
    assert sorted(row["id"] for row in job.output()) == sorted(row["id"] for row in ALL_ROWS)


OPEN = {"max_files_per_batch": None}


def test_short_batches_of_a_backlog_grow(job: JobUnderTest) -> None:
    read_all(job, "10m", **OPEN)

    taken = files_by_batch(job)
    assert taken[0] == 1
    assert taken[1] > 1
    assert sum(taken) == FILES


@pytest.mark.long
def test_batches_that_take_too_long_do_not_grow(job: JobUnderTest) -> None:
    read_all(job, "1ms", **OPEN)

    assert files_by_batch(job) == [1] * FILES


def test_without_a_target_a_batch_takes_all_there_is(job: JobUnderTest) -> None:
    read_all(job, "0s", **OPEN)

    assert files_by_batch(job) == [FILES]


@pytest.mark.long
@pytest.mark.parametrize(
    "limit", [{"max_files_per_batch": 4}, {**OPEN, "options": {"maxFilesPerTrigger": "4"}}]
)
def test_a_limit_of_the_graph_is_kept(job: JobUnderTest, limit: dict[str, Any]) -> None:
    read_all(job, "10m", **limit)

    assert files_by_batch(job) == [4, 4]
