"""What a job should have written, computed in plain Python, with none of its code."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

WindowRow = tuple[int, int, int, int, int]
"""auction, window start in milliseconds, bids, revenue, top"""


@dataclass(frozen=True)
class Bids:
    """The rows of the generator in `examples/quickstart.yaml`, by arithmetic."""

    rows_per_second: int
    started_at_ms: int

    def windows(self, rows: int, size_ms: int) -> set[WindowRow]:
        """The quickstart's result over the first `rows` rows."""
        prices: dict[tuple[int, int], list[int]] = defaultdict(list)
        for number in range(rows):
            price = number * 104_729 % 1000 + 1
            ts = self.started_at_ms + number * 1000 // self.rows_per_second
            if price > 100:
                prices[number % 20, ts // size_ms * size_ms].append(price)
        return {(a, w, len(p), sum(p), max(p)) for (a, w), p in prices.items()}


def generator_started_at(spark_checkpoint_dir: Path) -> int:
    """When the first generator of a query began, as Spark wrote it down: its rows' first `ts`."""
    version, started_at = (spark_checkpoint_dir / "sources" / "0" / "0").read_text().split()
    assert version == "v1"
    return int(started_at)


def read_windows(directory: Path) -> list[WindowRow]:
    """The rows a plain reader finds; as a list, so that one that is there twice shows."""
    if not any(directory.glob("*.parquet")):
        return []
    query = f"""SELECT auction, epoch_ms(window_start), bids, revenue, top
                FROM read_parquet('{directory}/*.parquet')"""
    rows = duckdb.execute(query).fetchall()
    return [tuple(int(value) for value in row) for row in rows]  # type: ignore[misc]


def twice(rows: Iterable[Any]) -> list[Any]:
    """What is there more than once."""
    return [row for row, count in Counter(rows).items() if count > 1]
