"""The relational operators for the tables of tests, with their oracles.

Everything comes from one source `rows`. For a join it is read twice: as it is, and as `other`,
a third of it under other names.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, NotRequired, TypedDict

from tests.support import oracle
from tests.support.oracle import Results

Row = dict[str, Any]

WITHIN = timedelta(seconds=5)
SUMS = {"n": "count(*)", "total": "sum(v)"}
OTHER: list[Row] = [
    {"id": "some", "op": "filter", "inputs": ["rows"], "where": "g = 0"},
    {
        "id": "other",
        "op": "map",
        "inputs": ["some"],
        "select": {"oid": "id", "k": "k", "w": "v", "ots": "ts"},
    },
]
MINE: Row = {
    "id": "mine",
    "op": "map",
    "inputs": ["rows"],
    "select": {"id": "id", "k": "k", "v": "v", "ts": "ts"},
}


class Entry(TypedDict):
    name: str
    vertices: Sequence[Row]
    states: Sequence[str | None]
    expected: Callable[[list[Row]], Results]
    emits_once: NotRequired[bool]
    visible: NotRequired[Callable[[Results, datetime], Results]]


def join(kind: str, **fields: Any) -> list[Row]:
    """The join, and a map that makes a result `n`, `total` of each pair."""
    vertex = {"id": "pairs", "op": "join", "inputs": ["mine", "other"], "on": ["k"], "type": kind}
    of_other = kind not in ("left_semi", "left_anti")
    named = {
        "id": "id",
        "oid": "oid" if of_other else "CAST(NULL AS BIGINT)",
        "at": "coalesce(ts, ots)" if of_other else "ts",
        "n": "1",
        "total": "coalesce(v, 0) + coalesce(w, 0)" if of_other else "v",
    }
    last = {"id": "named", "op": "map", "inputs": ["pairs"], "select": named}
    return [MINE, *OTHER, {**vertex, **fields}, last]


def joined(kind: str, within: timedelta | None = WITHIN) -> Callable[[list[Row]], Results]:
    def expected(rows: list[Row]) -> Results:
        others = [row for row in rows if row["g"] == 0]
        return {
            (
                one["id"] if one else None,
                other["id"] if other else None,
                datetime.fromisoformat((one or other or {})["ts"]),
            ): (1, (one["v"] if one else 0) + (other["v"] if other else 0))
            for one, other in oracle.joined(rows, others, "k", within, kind)
        }

    return expected


def at_once(results: Results, watermark: datetime) -> Results:
    return results


def unmatched_later(results: Results, watermark: datetime) -> Results:
    """A row without a partner comes when none can come any more."""
    return {
        key: result
        for key, result in results.items()
        if None not in key[:2] or key[2] + WITHIN < watermark
    }


def first_of(*key: str) -> Callable[[list[Row]], Results]:
    return lambda rows: dict.fromkeys(oracle.sums(rows, *key), (1, 0))


def first_of_slot(rows: list[Row]) -> Results:
    epoch = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    moments = [(row["k"], datetime.fromisoformat(row["ts"]) - epoch) for row in rows]
    return {(k, int(at.total_seconds()) // 10): (1, 0) for k, at in moments}


def distinct(*key: str, **fields: Any) -> list[Row]:
    columns = {name: name for name in key}
    return [
        {
            "id": "slots",
            "op": "map",
            "inputs": ["rows"],
            "add": {"slot": "unix_seconds(ts) div 10"},
        },
        {"id": "firsts", "op": "distinct", "inputs": ["slots"], "key": list(key), **fields},
        {
            "id": "named",
            "op": "map",
            "inputs": ["firsts"],
            "select": {**columns, "n": "1", "total": "0"},
        },
    ]


def sql(query: str, *inputs: str) -> Row:
    return {"id": "query", "op": "sql", "inputs": list(inputs or ["rows"]), "query": query}


def tumbling(rows: list[Row]) -> Results:
    size = timedelta(seconds=10)
    return oracle.windows(rows, size, size, "k")


SQL_JOIN = """SELECT id, oid, ts AS at, 1 AS n, v + w AS total FROM mine JOIN other
              ON mine.k = other.k
              AND ts >= ots - INTERVAL 5 SECONDS AND ts <= ots + INTERVAL 5 SECONDS"""
SQL_WINDOW = """SELECT k, window.start AS window_start, window.end AS window_end,
                count(*) AS n, sum(v) AS total FROM rows GROUP BY window(ts, '10 seconds'), k"""

RELATIONAL: list[Entry] = [
    {
        "name": "inner join",
        "vertices": join("inner", within="5s"),
        "states": ["key.field0"],
        "expected": joined("inner"),
        "emits_once": True,
        "visible": at_once,
    },
    {
        "name": "left join",
        "vertices": join("left", within="5s"),
        "states": ["key.field0"],
        "expected": joined("left"),
        "emits_once": True,
        "visible": unmatched_later,
    },
    {
        "name": "right join",
        "vertices": join("right", within="5s"),
        "states": ["key.field0"],
        "expected": joined("right"),
        "emits_once": True,
        "visible": unmatched_later,
    },
    {
        "name": "full join",
        "vertices": join("full", within="5s"),
        "states": ["key.field0"],
        "expected": joined("full"),
        "emits_once": True,
        "visible": unmatched_later,
    },
    {
        "name": "semi join",
        "vertices": join("left_semi", within="5s"),
        "states": ["key.field0"],
        "expected": joined("left_semi"),
        "emits_once": True,
        "visible": at_once,
    },
    {
        "name": "inner join for ever",
        "vertices": join("inner"),
        "states": ["key.field0"],
        "expected": joined("inner", None),
        "emits_once": True,
        "visible": at_once,
    },
    {
        "name": "distinct",
        "vertices": distinct("k", "g"),
        "states": ["key.k, key.g"],
        "expected": first_of("k", "g"),
        "emits_once": True,
        "visible": at_once,
    },
    {
        "name": "distinct within a time",
        "vertices": distinct("k", "slot", within="20s"),
        "states": ["key.k, key.slot"],
        "expected": first_of_slot,
        "emits_once": True,
        "visible": at_once,
    },
    {
        "name": "reduce by key",
        "vertices": [
            {"id": "sums", "op": "reduce", "inputs": ["rows"], "key": ["k"], "aggregate": SUMS}
        ],
        "states": ["key.k"],
        "expected": lambda rows: oracle.sums(rows, "k"),
    },
    {
        "name": "windows of joined rows",
        "vertices": [
            *join("inner", within="5s")[:-1],
            {
                "id": "windows",
                "op": "window",
                "inputs": ["pairs"],
                "key": ["k"],
                "time": "ts",
                "window": {"tumbling": "10s"},
                "aggregate": {"n": "count(*)", "total": "sum(v + w)"},
            },
        ],
        "states": ["key.window, key.k", "key.field0"],
        "expected": lambda rows: tumbling(
            [
                {**one, "v": one["v"] + other["v"]}
                for one, other in oracle.pairs(rows, [r for r in rows if r["g"] == 0], "k", WITHIN)
            ]
        ),
        "emits_once": True,
        "visible": lambda results, watermark: oracle.closed(results, watermark - WITHIN),
    },
    {
        "name": "sql aggregate",
        "vertices": [sql("SELECT k, count(*) AS n, sum(v) AS total FROM rows GROUP BY k")],
        "states": ["key.k"],
        "expected": lambda rows: oracle.sums(rows, "k"),
    },
    {
        "name": "sql aggregate without a key",
        "vertices": [sql("SELECT count(*) AS n, sum(v) AS total FROM rows")],
        "states": [None],
        "expected": lambda rows: oracle.sums(rows),
    },
    {
        "name": "sql windows",
        "vertices": [sql(SQL_WINDOW)],
        "states": ["key.window, key.k"],
        "expected": tumbling,
        "emits_once": True,
    },
    {
        "name": "sql join",
        "vertices": [MINE, *OTHER, sql(SQL_JOIN, "mine", "other")],
        "states": ["key.field0"],
        "expected": joined("inner"),
        "emits_once": True,
        "visible": at_once,
    },
]
