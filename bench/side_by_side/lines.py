"""The lines of the table: one small streaming job each, as a job graph, in PySpark and in SQL.

All of them read the same rows, in one or two tables; see `input_data`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Vertices = list[dict[str, Any]]
"""Without sources and sink. The vertex before the sink is called `result`."""


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    what: str
    vertices: Vertices
    pyspark: Callable[..., Any]
    """From the DataFrames of its tables to that of its results."""
    flink: str
    """A query; `bids` and `asks` are its tables."""
    tables: tuple[str, ...] = ("bids",)
    format: str = "csv"
    writes: bool = True
    """Whether results go to files; else they are only counted, since they are updates."""
    spark: Mapping[str, str] = field(default_factory=dict)

    @property
    def output_mode(self) -> str:
        return "append" if self.writes else "update"


def _pass_through(bids: Any) -> Any:
    return bids


def _filter_map(bids: Any) -> Any:
    return bids.where("price % 10 < 5").selectExpr(
        "auction", "price * 89 DIV 100 AS euros", "concat('bidder-', bidder) AS who", "ts"
    )


def _windows(key: str, size: str, every: str | None = None) -> Callable[..., Any]:
    def build(bids: Any) -> Any:
        from pyspark.sql import functions as sql

        window = sql.window("ts", size, every)
        sums = bids.groupBy(window, key).agg(
            sql.count("*").alias("bids"), sql.sum("price").alias("total")
        )
        return sums.select(key, "window.start", "window.end", "bids", "total")

    return build


def _sessions(bids: Any) -> Any:
    from pyspark.sql import functions as sql

    window = sql.session_window("ts", "10 seconds")
    found = bids.groupBy(window, "seller").agg(sql.count("*").alias("bids"))
    return found.select("seller", "session_window.start", "session_window.end", "bids")


def _join(bids: Any, asks: Any) -> Any:
    from pyspark.sql import functions as sql

    near = "asked_at BETWEEN ts - INTERVAL 5 SECONDS AND ts + INTERVAL 5 SECONDS"
    pairs = bids.join(asks, sql.expr(f"auction = item AND {near}"))
    return pairs.select("auction", "price", "ask")


def _distinct(bids: Any) -> Any:
    return bids.dropDuplicatesWithinWatermark(["auction"])


def _running(bids: Any) -> Any:
    from pyspark.sql import functions as sql

    return bids.groupBy("seller").agg(sql.count("*").alias("bids"), sql.sum("price").alias("total"))


def _window_vertex(key: str, window: dict[str, Any]) -> Vertices:
    return [
        {
            "id": "result",
            "op": "window",
            "inputs": ["bids"],
            "key": [key],
            "window": window,
            "aggregate": {"bids": "count(*)", "total": "sum(price)"},
        }
    ]


def _flink_window(function: str, key: str) -> str:
    return (
        f"SELECT {key}, window_start, window_end, count(*) AS bids, sum(price) AS total "
        f"FROM {function} GROUP BY {key}, window_start, window_end"
    )


_TUMBLING = "TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND)"
_FILTER_MAP = {
    "auction": "auction",
    "euros": "price * 89 DIV 100",
    "who": "concat('bidder-', bidder)",
    "ts": "ts",
}

LINES: tuple[Line, ...] = (
    Line(
        "pass-through",
        "every row is written as it was read",
        [{"id": "result", "op": "filter", "inputs": ["bids"], "where": "true"}],
        _pass_through,
        "SELECT auction, bidder, seller, price, ts FROM bids",
    ),
    Line(
        "filter-map",
        "half of the rows, three computed columns",
        [
            {"id": "half", "op": "filter", "inputs": ["bids"], "where": "price % 10 < 5"},
            {"id": "result", "op": "map", "inputs": ["half"], "select": _FILTER_MAP},
        ],
        _filter_map,
        "SELECT auction, price * 89 / 100 AS euros, "
        "CONCAT('bidder-', CAST(bidder AS STRING)) AS who, ts FROM bids "
        "WHERE MOD(price, 10) < 5",
    ),
    Line(
        "tumbling, few groups",
        "10 s windows, 100 keys",
        _window_vertex("bidder", {"tumbling": "10s"}),
        _windows("bidder", "10 seconds"),
        _flink_window(_TUMBLING, "bidder"),
    ),
    Line(
        "tumbling, many groups",
        "10 s windows, nearly every row a group of its own",
        _window_vertex("auction", {"tumbling": "10s"}),
        _windows("auction", "10 seconds"),
        _flink_window(_TUMBLING, "auction"),
    ),
    Line(
        "sliding",
        "30 s windows each 10 s, 100 keys",
        _window_vertex("bidder", {"sliding": "30s", "every": "10s"}),
        _windows("bidder", "30 seconds", "10 seconds"),
        _flink_window(
            "HOP(TABLE bids, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '30' SECOND)", "bidder"
        ),
    ),
    Line(
        "session",
        "10 s gap, one key for 50 rows",
        [
            {
                "id": "result",
                "op": "window",
                "inputs": ["bids"],
                "key": ["seller"],
                "window": {"session": "10s"},
                "aggregate": {"bids": "count(*)"},
            }
        ],
        _sessions,
        "SELECT seller, window_start, window_end, count(*) AS bids FROM "
        "SESSION(TABLE bids PARTITION BY seller, DESCRIPTOR(ts), INTERVAL '10' SECOND) "
        "GROUP BY seller, window_start, window_end",
    ),
    Line(
        "join",
        "two streams, at most 5 s apart",
        [
            {
                "id": "pairs",
                "op": "join",
                "inputs": ["bids", "asks"],
                "where": "auction = item",
                "within": "5s",
            },
            {
                "id": "result",
                "op": "map",
                "inputs": ["pairs"],
                "select": {"auction": "auction", "price": "price", "ask": "ask"},
            },
        ],
        _join,
        "SELECT auction, price, ask FROM bids, asks WHERE auction = item "
        "AND asked_at BETWEEN ts - INTERVAL '5' SECOND AND ts + INTERVAL '5' SECOND",
        tables=("bids", "asks"),
    ),
    Line(
        "deduplication",
        "the first row of each of many keys",
        [
            {
                "id": "result",
                "op": "distinct",
                "inputs": ["bids"],
                "key": ["auction"],
                "within": "1s",
            }
        ],
        _distinct,
        "SELECT auction, bidder, seller, price, ts FROM (SELECT *, ROW_NUMBER() OVER "
        "(PARTITION BY auction ORDER BY arrived) AS place FROM bids) WHERE place = 1",
    ),
    Line(
        "running aggregate",
        "count and sum for each of many keys, as updates",
        [
            {
                "id": "result",
                "op": "aggregate",
                "inputs": ["bids"],
                "key": ["seller"],
                "aggregate": {"bids": "count(*)", "total": "sum(price)"},
            }
        ],
        _running,
        "SELECT seller, count(*) AS bids, sum(price) AS total FROM bids GROUP BY seller",
        writes=False,
    ),
)
