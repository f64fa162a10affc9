"""Computes the expected output of a job in plain Python, without the tested code."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
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


Row = Mapping[str, Any]
"""Has `v`, a number, `ts`, an ISO 8601 time, and the columns that are keys."""
Results = dict[tuple[Any, ...], tuple[int, int]]
"""Key, then the window's start and end if there is one, to how many rows and the sum of `v`."""


def sums(rows: Iterable[Row], *key: str) -> Results:
    """Count and sum of each key."""
    return _summed((_key(row, key), row) for row in rows)


def windows(rows: Iterable[Row], size: timedelta, every: timedelta, *key: str) -> Results:
    """Count and sum of each window that has rows. `every` is `size` for tumbling ones."""
    return _summed(
        ((*_key(row, key), start, start + size), row)
        for row in rows
        for start in _starts(_moment(row), size, every)
    )


def sessions(rows: Iterable[Row], gap: timedelta, *key: str) -> Results:
    """Count and sum of each session: rows of a key that follow one another within `gap`."""
    found: list[tuple[tuple[Any, ...], Row]] = []
    for group, members in _grouped(rows, key).items():
        for session in _sessions(sorted(members, key=_moment), gap):
            bounds = (_moment(session[0]), _moment(session[-1]) + gap)
            found += [((*group, *bounds), row) for row in session]
    return _summed(found)


def closed(results: Results, watermark: datetime) -> Results:
    """The windows and sessions that have ended by then."""
    return {key: result for key, result in results.items() if key[-1] <= watermark}


def pairs(
    left: Sequence[Row], right: Sequence[Row], key: str, within: timedelta | None
) -> list[tuple[Row, Row]]:
    """Which rows a join brings together. A null is no key."""
    return [
        (one, other)
        for one in left
        for other in right
        if one[key] is not None and one[key] == other[key]
        and (within is None or abs(_moment(one) - _moment(other)) <= within)
    ]  # fmt: skip


def joined(
    left: Sequence[Row], right: Sequence[Row], key: str, within: timedelta | None, kind: str
) -> list[tuple[Row | None, Row | None]]:
    """The rows of a join, with none for a partner that is not there."""
    found: list[tuple[Row | None, Row | None]] = list(pairs(left, right, key, within))
    lefts = {id(one) for one, _ in found}
    rights = {id(other) for _, other in found}
    if kind in ("left", "full"):
        found += [(one, None) for one in left if id(one) not in lefts]
    if kind in ("right", "full"):
        found += [(None, other) for other in right if id(other) not in rights]
    if kind == "left_semi":
        return [(one, None) for one in left if id(one) in lefts]
    if kind == "left_anti":
        return [(one, None) for one in left if id(one) not in lefts]
    return found


def _summed(rows: Iterable[tuple[tuple[Any, ...], Row]]) -> Results:
    found: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for key, row in rows:
        found[key].append(row["v"])
    return {key: (len(values), sum(values)) for key, values in found.items()}


def _grouped(rows: Iterable[Row], key: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    found: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        found[_key(row, key)].append(row)
    return found


def _sessions(rows: Iterable[Row], gap: timedelta) -> list[list[Row]]:
    found: list[list[Row]] = []
    for row in rows:
        if not found or _moment(row) - _moment(found[-1][-1]) >= gap:
            found.append([])
        found[-1].append(row)
    return found


def _starts(moment: datetime, size: timedelta, every: timedelta) -> Iterator[datetime]:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    start = epoch + (moment - epoch) // every * every
    while start > moment - size:
        yield start
        start -= every


def _key(row: Row, key: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[column] for column in key)


def _moment(row: Row) -> datetime:
    return datetime.fromisoformat(row["ts"])
