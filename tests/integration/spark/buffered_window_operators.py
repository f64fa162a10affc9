"""Buffered windows for the rescale conformance: entries of `test_rescale.OPERATORS`."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from tests.integration.spark.jobs import Row, files_sink
from tests.support import oracle
from tests.support.oracle import Results

ROWS_A_FILE = 25
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
    """After every so many rows of a key the last `size`: file by file, inside a file by time."""
    seen: dict[Any, list[int]] = defaultdict(list)
    found: Results = {}
    for row in sorted(
        rows, key=lambda r: (r["id"] // ROWS_A_FILE, datetime.fromisoformat(r["ts"]))
    ):
        values = seen[row["k"]]
        values.append(row["v"])
        if len(values) % every == 0:
            last = values[-size:]
            found[row["k"], len(values) // every] = (len(last), sum(last))
    return found


STATE = ["key.__headgate_group"]
BUFFERED_WINDOWS: list[dict[str, Any]] = [
    {
        "name": "count windows",
        "vertices": [window({"count": 3})],
        "states": STATE,
        "expected": lambda rows: panes(rows, 3, 3),
        "is_long": True,
    },
    {
        "name": "sliding count windows",
        "vertices": [window({"count": 5, "every": 2})],
        "states": STATE,
        "expected": lambda rows: panes(rows, 5, 2),
        "is_long": True,
    },
    {
        "name": "a global window by count",
        "vertices": [window({"global": True}, trigger={"count": 2})],
        "states": STATE,
        "expected": lambda rows: panes(rows, len(rows), 2),
        "is_long": True,
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
