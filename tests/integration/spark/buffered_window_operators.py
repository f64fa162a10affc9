"""Buffered windows for the rescale conformance: entries of `test_rescale.OPERATORS`."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from tests.integration.spark.jobs import Row, files_sink
from tests.support import oracle
from tests.support.oracle import Results

SECOND = timedelta(seconds=1)


def window(kind: Row, **fields: Any) -> Row:
    return {
        "id": "windows",
        "op": "window",
        "inputs": ["rows"],
        "key": ["k"],
        "time": "ts",
        "window": kind,
        "aggregate": {"n": "count(*)", "total": "sum(v)"},
        **fields,
    }


def panes(rows: Sequence[Row], size: int, every: int) -> Results:
    """After every so many rows of a key the last `size`."""
    seen: dict[Any, list[int]] = defaultdict(list)
    found: Results = {}
    for row in sorted(rows, key=lambda row: int(row["id"])):
        values = seen[row["k"]]
        values.append(row["v"])
        if len(values) % every == 0:
            last = values[-size:]
            found[row["k"], len(values) // every] = (len(last), sum(last))
    return found


def in_panes(kind: Row, **fields: Any) -> list[Row]:
    """Windows that take rows in the order of their numbers, however they are cut into batches."""
    numbered = {
        "id": "numbered",
        "op": "map",
        "inputs": ["rows"],
        "add": {"at": "timestamp_seconds(id)"},
    }
    return [numbered, window(kind, inputs=["numbered"], time="at", **fields)]


STATE = ["key.__headgate_group"]
BUFFERED_WINDOWS: list[dict[str, Any]] = [
    {
        "name": "count windows",
        "vertices": in_panes({"count": 3}),
        "states": STATE,
        "expected": lambda rows: panes(rows, 3, 3),
    },
    {
        "name": "sliding count windows",
        "vertices": in_panes({"count": 5, "every": 2}),
        "states": STATE,
        "expected": lambda rows: panes(rows, 5, 2),
    },
    {
        "name": "a global window by count",
        "vertices": in_panes({"global": True}, trigger={"count": 2}),
        "states": STATE,
        "expected": lambda rows: panes(rows, len(rows), 2),
    },
    {
        "name": "tumbling windows with allowed lateness and a late side",
        "vertices": [window({"tumbling": "10s"}, allowed_lateness="5s")],
        "states": STATE,
        "expected": lambda rows: oracle.windows(rows, 10 * SECOND, 10 * SECOND, "k"),
        "emits_once": True,
        "beside": [
            files_sink(
                "windows", id="late", path="late", inputs=[{"from": "windows", "side": "late"}]
            )
        ],
    },
]
