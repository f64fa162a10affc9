"""Windows computed row by row, as the documentation says, with none of the operator's code."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from taskrunner.keyed.operator import NO_WATERMARK_MS, Moment
from taskrunner.keyed.windows.aggregators import AggregatorSpec
from taskrunner.keyed.windows.operator import WindowOperator
from taskrunner.keyed.windows.spec import (
    SIDE,
    AtEnd,
    Evictor,
    Kind,
    SentColumn,
    Session,
    Trigger,
    Tumbling,
    WindowSpec,
)

SECOND = 1_000_000
Row = tuple[str, int, int]
"""Key, time in seconds, value."""
Result = tuple[Any, ...]
"""Key, then start and end in seconds or the pane, then the values in the window."""


@dataclass(frozen=True)
class Batch:
    rows: Sequence[Row]
    watermark: int | None = None
    """In seconds."""
    processing: int = 0
    """In seconds."""


def a_spec(
    kind: Kind,
    trigger: Trigger = AtEnd(),  # noqa: B008
    evictor: Evictor | None = None,
    lateness: int = 0,
    folds: tuple[AggregatorSpec, ...] = (AggregatorSpec("collect_list", (0,)),),
) -> WindowSpec:
    """Of rows with columns k, t and v: position 0 is the value, 1 and 2 are the time."""
    window = ("s", "e") if isinstance(kind, Tumbling | Session) else ("pane",)
    return WindowSpec(
        key=(SentColumn("k", None),),
        columns=(SentColumn("v", ("nulls", 0)), SentColumn("t", None), SentColumn("t", None)),
        buffered=2,
        time=2,
        kind=kind,
        trigger=trigger,
        evictor=evictor,
        lateness_us=lateness * SECOND,
        folds=folds,
        function=None,
        late_columns=(0,),
        output=("k", *window, *(f"r{at}" for at in range(len(folds))), SIDE, "late"),
    )


@dataclass
class Run:
    """An operator that is called batch by batch, as Spark would."""

    spec: WindowSpec
    results: list[Result] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    state: bytes | None = None
    timer_ms: int | None = None

    def take(self, batch: Batch) -> None:
        moment = _moment(batch)
        is_due = self.timer_ms is not None and self.timer_ms <= max(
            moment.watermark_ms, moment.processing_ms
        )
        if not batch.rows and not is_due:
            return
        rows = sorted(batch.rows, key=lambda row: row[1])
        frame = pd.DataFrame(
            {
                "k": pd.Series([k for k, _, _ in rows], dtype=object),
                "t": pd.Series([t * SECOND for _, t, _ in rows], dtype="int64"),
                "v": pd.Series([v for _, _, v in rows], dtype="int64"),
                "nulls": pd.Series([0] * len(rows), dtype="int64"),
            }
        )
        outcome = WindowOperator(self.spec).take(self.state, frame if rows else None, moment)
        self.state, self.timer_ms = outcome.state, outcome.timer_ms
        for row in outcome.rows.itertuples(index=False, name=None):
            if row[-2] is not None:
                self.late.append(row[-1])
            else:
                self.results.append(_in_seconds(self.spec, row[:-2]))


def run(spec: WindowSpec, batches: Sequence[Batch]) -> Run:
    found = Run(spec)
    for batch in batches:
        found.take(batch)
    return found


def _moment(batch: Batch) -> Moment:
    watermark = NO_WATERMARK_MS if batch.watermark is None else batch.watermark * 1000
    return Moment(watermark, batch.processing * 1000)


def _in_seconds(spec: WindowSpec, row: Sequence[Any]) -> Result:
    if "pane" in spec.output:
        return tuple(row)
    key, start, end, *results = row
    return (key, start / SECOND, end / SECOND, *results)
