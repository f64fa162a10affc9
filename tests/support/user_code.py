"""Example user functions for tests; Python workers import them by name."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from taskrunner.api import (
    Context,
    ListState,
    MapState,
    ProcessFunction,
    Row,
    ValueState,
    count,
    highest,
)


class Sums(ProcessFunction):
    """Count and sum of `v` for each key, told with each row."""

    n: ValueState[int] = ValueState(default=0)
    total: ValueState[int] = ValueState(default=0)

    def process(self, row: Row, ctx: Context) -> None:
        self.n.update(self.n.value() + 1)
        self.total.update(self.total.value() + row["v"])
        count("rows")
        highest("highest", row["v"])
        ctx.emit({"k": ctx.key, "n": self.n.value(), "total": self.total.value()})


class Tumbling(ProcessFunction):
    """Count and sum of `v` in windows of ten seconds, by a map state and timers; late rows go."""

    windows: MapState[int, tuple[int, int]] = MapState()

    def process(self, row: Row, ctx: Context) -> None:
        assert ctx.timestamp_ms is not None
        start = ctx.timestamp_ms // 10_000 * 10_000
        if start + 10_000 <= ctx.watermark_ms:
            count("late")
            return
        n, total = self.windows.get(start, (0, 0))
        self.windows.put(start, (n + 1, total + row["v"]))
        ctx.register_timer(start + 10_000)

    def on_timer(self, time_ms: int, ctx: Context) -> None:
        n, total = self.windows.get(time_ms - 10_000)
        self.windows.remove(time_ms - 10_000)
        start, end = (datetime.fromtimestamp(t / 1000, UTC) for t in (time_ms - 10_000, time_ms))
        ctx.emit({"k": ctx.key, "window_start": start, "window_end": end, "n": n, "total": total})


class Batches(ProcessFunction):
    """All values of a key that came within half a second of the first, by processing time."""

    values: ListState[int] = ListState()

    def process(self, row: Row, ctx: Context) -> None:
        if not self.values.get():
            ctx.register_timer(ctx.processing_ms + 500)
        self.values.add(row["v"])

    def on_timer(self, time_ms: int, ctx: Context) -> None:
        found = self.values.get()
        self.values.clear()
        ctx.emit({"k": ctx.key, "n": len(found), "total": sum(found)})


class Raising(ProcessFunction):
    def process(self, row: Row, ctx: Context) -> None:
        if row["v"] == 13:
            raise ValueError("thirteen is bad luck")
        ctx.emit({"k": ctx.key, "n": 1, "total": row["v"]})


class Misfit(ProcessFunction):
    """Gives a text for a number."""

    def process(self, row: Row, ctx: Context) -> None:
        ctx.emit({"k": ctx.key, "n": "many", "total": row["v"]})


def newest(one: Row, other: Row) -> Row:
    """The row with the higher id, and the sum of both values."""
    last = max(one, other, key=lambda row: int(row["id"]))
    return {**last, "v": one["v"] + other["v"]}


def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Even values, twice as high."""
    even = batch.filter(pc.equal(pc.bit_wise_and(batch["v"], 1), 0))
    count("dropped", batch.num_rows - even.num_rows)
    values = pc.multiply(even["v"], 2)
    return pa.record_batch({"k": even["k"], "double": values, "ts": even["ts"]})


def both_sides(key: Any, left: list[Row], right: list[Row]) -> Iterable[Mapping[str, Any]]:
    count("keys")
    yield {
        "k": key,
        "lefts": len(left),
        "rights": len(right),
        "total": sum(row["v"] for row in left) - sum(row["w"] for row in right),
    }


def summed(one: Row, other: Row) -> Row:
    return {"n": one["n"] + other["n"], "total": one["total"] + other["total"]}
