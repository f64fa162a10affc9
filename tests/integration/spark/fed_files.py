"""Input that comes file by file, a running sum of it, and what the output should be."""

import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.integration.spark.jobs import JobUnderTest, Row, some_rows

FILES = 8
ROWS_A_FILE = 40
ALL_ROWS = some_rows(FILES * ROWS_A_FILE)


def files_source(**fields: object) -> Row:
    return {
        "id": "rows",
        "op": "source",
        "connector": "files",
        "format": "json",
        "path": "in",
        "schema": "id BIGINT, k STRING, v BIGINT, ts TIMESTAMP",
        "max_files_per_batch": 1,
        "watermark": {"column": "ts", "delay": "2s"},
        **fields,
    }


SUMS = {
    "id": "sums",
    "op": "aggregate",
    "inputs": ["rows"],
    "key": ["k"],
    "aggregate": {"n": "count(*)", "total": "sum(v)"},
}


def feed(job: JobUnderTest, first: int, last: int) -> None:
    """Puts the input files `first` to `last` where the job reads."""
    for number in range(first, last + 1):
        rows = ALL_ROWS[number * ROWS_A_FILE : (number + 1) * ROWS_A_FILE]
        put_file(job.root / "in", number, rows)


def put_file(directory: Path, number: int, rows: Iterable[Row]) -> None:
    """Puts the input file `number` into a directory that Spark may be reading.

    Spark reads files in the order of their modification times, in milliseconds, and files of
    one millisecond in the order in which the file system lists them. The clock of a file system
    ticks every few milliseconds: so the number decides the time, before the file has its name.
    """
    directory.mkdir(parents=True, exist_ok=True)
    unseen = directory / f".{number:03d}.json"
    unseen.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(unseen, (1_700_000_000 + number,) * 2)
    unseen.rename(directory / f"{number:03d}.json")


def wait_until_read(job: JobUnderTest, files: int) -> None:
    """Waits for the commit that covers so many files. A batch may take in two of them: one
    that was found by an attempt which died before it began the batch, and the next.
    """
    job.wait_for_commit(
        lambda log, batch: all(
            one is not None and one["logOffset"] >= files - 1 for one in log.offsets(batch).offsets
        )
    )


def sums_after(files: int) -> dict[str, tuple[int, int]]:
    rows = ALL_ROWS[: files * ROWS_A_FILE]
    return {
        key: (
            sum(1 for row in rows if row["k"] == key),
            sum(row["v"] for row in rows if row["k"] == key),
        )
        for key in {row["k"] for row in rows}
    }


def sums_seen(job: JobUnderTest, path: str = "out") -> dict[str, tuple[int, int]]:
    """The newest result of each key: counts only grow."""
    newest: dict[str, tuple[int, int]] = {}
    for row in job.output(path):
        newest[row["k"]] = max(newest.get(row["k"], (0, 0)), (row["n"], row["total"]))
    return newest


def check_updates_are_seen_once(job: JobUnderTest, path: str = "out") -> None:
    counts = Counter((row["k"], row["n"]) for row in job.output(path))
    assert max(counts.values()) == 1, "an update was published twice"
