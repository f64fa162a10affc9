from pathlib import Path

import pytest

from taskrunner.snapshots import empty_batches
from taskrunner.snapshots.spark_log import SparkLog, UnreadableSparkLog
from tests.unit.taskrunner.builders import SparkDirectory


def test_a_batch_that_repeats_the_offsets_reads_nothing_and_keeps_the_watermark(
    tmp_path: Path,
) -> None:
    SparkDirectory(tmp_path).begin(0, offset=4, watermark_ms=7)
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "0").write_text("v1\n{}")

    assert empty_batches.repeat_offsets(tmp_path) == 1

    log = SparkLog(tmp_path)
    assert log.offsets(1) == log.offsets(0)
    assert (log.last_begun(), log.last_committed()) == (1, 0)


def test_where_a_batch_is_under_way_no_other_begins(tmp_path: Path) -> None:
    SparkDirectory(tmp_path).begin(0)
    with pytest.raises(UnreadableSparkLog, match="under way"):
        empty_batches.repeat_offsets(tmp_path)


def test_a_first_batch_with_nothing_of_any_source(tmp_path: Path) -> None:
    empty_batches.begin_with_nothing(tmp_path / "new", 2, {"spark.x": "1"})
    log = SparkLog(tmp_path / "new")
    assert log.offsets(0).offsets == [None, None]
    assert log.offsets(0).watermark_ms == 0
    assert log.offsets(0).metadata["conf"] == {"spark.x": "1"}
