"""Writes batches without input to Spark's log, which Spark runs at the next start of a query."""

import json
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from taskrunner.snapshots import durable
from taskrunner.snapshots.spark_log import SparkLog, UnreadableSparkLog


def repeat_offsets(directory: Path) -> int:
    """Begins a batch with the offsets and watermark of the last one; returns its number.

    Spark runs this batch, since it was begun and not committed: it plans the query and checks it
    against the state, and no source has a row for it.
    """
    log = SparkLog(directory)
    last = log.last_committed()
    if last is None or last != log.last_begun():
        raise UnreadableSparkLog(f"{directory} has a batch under way")
    offsets = directory / "offsets"
    durable.write(offsets / str(last + 1), (offsets / str(last)).read_text(encoding="utf-8"))
    return last + 1


def begin_with_nothing(directory: Path, sources: int, settings: Mapping[str, str]) -> None:
    """Makes a Spark checkpoint directory whose first batch has no input from any source.

    `settings` are the settings that a query keeps for ever. For a missing setting Spark does not
    use the session's value, but the behaviour from before the setting existed.
    """
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": dict(settings)}
    lines = ["v1", json.dumps(metadata, separators=(",", ":")), *["-"] * sources]
    durable.write(directory / "metadata", json.dumps({"id": str(uuid4())}))
    durable.write(directory / "offsets" / "0", "\n".join(lines))
