"""Batches that read nothing, written down for Spark to run at the next start of a query."""

import json
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

from taskrunner.snapshots import durable
from taskrunner.snapshots.spark_log import SparkLog, UnreadableSparkLog


def repeat_offsets(directory: Path) -> int:
    """Begins a batch that ends where the last one ended, with the same watermark; its number.

    Spark runs it, since it was begun and not committed: it plans the query and checks it
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
    """Makes a Spark checkpoint directory whose first batch has nothing of any source.

    `settings` are those that a query keeps for life. One that is left out is not taken from
    the session: Spark then takes what it was before the setting existed.
    """
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": dict(settings)}
    lines = ["v1", json.dumps(metadata, separators=(",", ":")), *["-"] * sources]
    durable.write(directory / "metadata", json.dumps({"id": str(uuid4())}))
    durable.write(directory / "offsets" / "0", "\n".join(lines))
