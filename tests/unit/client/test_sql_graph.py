"""SQL as a job graph: which vertices a statement becomes, and what is refused, and why."""

from typing import Any

import pytest

from jobmanager.client.sql_graph import graph_of
from jobmanager.client.sql_tables import Catalogue, SqlFault, read_catalogue
from jobmanager.core.graph import graph_document

_CATALOGUE: dict[str, Any] = {
    "name": "from-the-catalogue",
    "parallelism": 2,
    "sources": {
        "bids": {
            "connector": "files",
            "format": "csv",
            "path": "bids",
            "schema": "auction BIGINT, price BIGINT, ts TIMESTAMP",
            "watermark": {"column": "ts", "delay": "5s"},
        },
        "sales": {
            "connector": "generator",
            "rows_per_second": 5,
            "columns": {"auction": "id", "seller": "id", "at": "ts"},
            "watermark": {"column": "at", "delay": "5s"},
        },
    },
    "sinks": {"out": {"connector": "files", "format": "parquet", "path": "out"}},
}


def _catalogue() -> Catalogue:
    return read_catalogue(_CATALOGUE)


def _vertices(text: str) -> list[dict[str, Any]]:
    """Those between the sources and the sink."""
    graph = graph_of(text, _catalogue())
    return [one for one in graph["vertices"] if one["op"] not in ("source", "sink")]


@pytest.mark.parametrize(
    ("grouping", "window"),
    [
        ("window(ts, '10 seconds')", {"tumbling": "10s"}),
        ("TUMBLE(ts, INTERVAL '10' SECOND)", {"tumbling": "10s"}),
        ("window(ts, '10 minutes', '5 minutes')", {"sliding": "10m", "every": "5m"}),
        ("HOP(ts, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE)", {"sliding": "10m", "every": "5m"}),
        ("session_window(ts, '30 seconds')", {"session": "30s"}),
        ("SESSION(ts, INTERVAL '30' SECOND)", {"session": "30s"}),
    ],
)
def test_a_windowed_group_is_a_window_vertex(grouping: str, window: dict[str, str]) -> None:
    found = _vertices(
        f"INSERT INTO out SELECT auction, window_start, window_end, sum(price) AS revenue "
        f"FROM bids WHERE price > 100 GROUP BY auction, {grouping}"
    )

    assert found == [
        {"id": "out_where", "op": "filter", "inputs": ["bids"], "where": "price > 100"},
        {
            "id": "out_group",
            "op": "window",
            "inputs": ["out_where"],
            "key": ["auction"],
            "time": "ts",
            "window": window,
            "aggregate": {"revenue": "SUM(price)"},
        },
    ]


def test_a_whole_statement_is_a_sound_graph_with_the_catalogues_settings() -> None:
    graph = graph_of(
        "INSERT INTO out SELECT window.start AS at, b.auction AS item, "
        "sum(price) / count(*) AS mean FROM bids b GROUP BY window(ts, '10 seconds'), item "
        "HAVING count(*) > 2",
        _catalogue(),
    )

    parsed = graph_document.parse(graph)
    assert (parsed.name, parsed.parallelism) == ("from-the-catalogue", 2)
    assert [one.id for one in parsed.vertices] == [
        *("bids", "out_group", "out_having", "out_select", "out")
    ]
    group, having, select = graph["vertices"][1:4]
    assert group["key"] == ["auction"]
    assert group["aggregate"] == {"mean": "SUM(price) / COUNT(*)", "__having": "COUNT(*) > 2"}
    assert having["where"] == "__having"
    assert select["select"] == {"at": "window_start", "item": "auction", "mean": "mean"}


def test_a_group_without_a_window_is_an_aggregate() -> None:
    found = _vertices(
        "INSERT INTO out SELECT price % 10 AS last, count(*) AS bids FROM bids GROUP BY last"
    )

    assert found == [
        {"id": "out_keys", "op": "map", "inputs": ["bids"], "add": {"last": "price % 10"}},
        {
            "id": "out_group",
            "op": "aggregate",
            "inputs": ["out_keys"],
            "key": ["last"],
            "aggregate": {"bids": "COUNT(*)"},
        },
    ]


def test_aggregates_alone_are_one_group() -> None:
    (found,) = _vertices("INSERT INTO out SELECT max(price) AS top FROM bids")

    assert "key" not in found
    assert found["aggregate"] == {"top": "MAX(price)"}


def test_projections_subqueries_and_unions_are_maps_filters_and_unions() -> None:
    found = _vertices(
        "INSERT INTO out WITH big AS (SELECT *, price * 2 AS twice FROM bids WHERE price > 5) "
        "SELECT auction, twice FROM big UNION ALL SELECT auction, price FROM (SELECT * FROM bids) x"
    )

    assert [(one["id"], one["op"]) for one in found] == [
        *(("big_where", "filter"), ("big_select", "map"), ("out_select", "map")),
        *(("out_select_2", "map"), ("out_union", "union")),
    ]
    assert found[1]["add"] == {"twice": "price * 2"}
    assert found[2]["select"] == {"auction": "auction", "twice": "twice"}
    assert found[4]["inputs"] == ["out_select", "out_select_2"]


def test_a_join_is_on_equal_columns_and_within_a_time() -> None:
    join, _ = _vertices(
        "INSERT INTO out SELECT b.auction, price, seller FROM bids b LEFT JOIN sales s "
        "ON b.auction = s.auction AND b.ts BETWEEN s.at - INTERVAL '1' MINUTE "
        "AND s.at + INTERVAL '1' MINUTE"
    )

    assert join == {
        "id": "out_join",
        "op": "join",
        "inputs": ["bids", "sales"],
        "left": "bids",
        "right": "sales",
        "type": "left",
        "on": ["auction"],
        "within": "1m",
    }


def test_what_keeps_no_state_and_is_not_taken_apart_is_left_to_spark() -> None:
    (found,) = _vertices(
        "INSERT INTO out SELECT b.auction, n FROM bids b LATERAL VIEW explode(array(1, 2)) t AS n"
    )

    assert (found["op"], found["inputs"]) == ("sql", ["bids"])
    assert "FROM bids AS b LATERAL VIEW" in found["query"]


def test_tables_and_settings_can_be_declared_in_the_text() -> None:
    graph = graph_of(
        """
        -- made-up bids
        SET 'parallelism' = '3';
        SET 'checkpointing.interval' = '2s';
        SET spark.sql.ansi.enabled = false;
        CREATE TABLE bids (
            auction BIGINT, tags MAP<STRING, DECIMAL(10, 2)>, ts TIMESTAMP,
            WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
        ) WITH ('connector' = 'files', 'format' = 'csv', 'path' = 'it''s',
                'options.header' = 'true', 'max_files_per_batch' = '4');
        CREATE TABLE ticks WITH ('connector' = 'generator', 'rows_per_second' = '7',
                                 'columns.k' = 'id % 2', 'columns.ts' = 'ts');
        CREATE TABLE kept (k BIGINT) WITH ('connector' = 'files', 'format' = 'json', 'path' = 'o',
                                           'partition_by' = 'k');
        CREATE TABLE gone (k BIGINT) WITH ('connector' = 'blackhole');
        INSERT INTO kept SELECT k FROM ticks;
        INSERT INTO gone SELECT * FROM bids;
        """,
        Catalogue(),
    )

    graph_document.parse(graph)
    found = {one["id"]: one for one in graph["vertices"]}
    assert (graph["parallelism"], graph["checkpointing"]) == (3, {"interval": "2s"})
    assert graph["spark"] == {"spark.sql.ansi.enabled": "false"}
    assert found["bids"] == {
        "id": "bids",
        "op": "source",
        "connector": "files",
        "schema": "auction BIGINT, tags MAP<STRING, DECIMAL(10, 2)>, ts TIMESTAMP",
        "watermark": {"column": "ts", "delay": "5s"},
        "format": "csv",
        "path": "it's",
        "options": {"header": "true"},
        "max_files_per_batch": 4,
    }
    assert found["ticks"]["columns"] == {"k": "id % 2", "ts": "ts"}
    assert found["kept"] == {
        "id": "kept",
        "op": "sink",
        "inputs": ["kept_select"],
        "connector": "files",
        "format": "json",
        "path": "o",
        "partition_by": ["k"],
    }
    assert found["gone"]["inputs"] == ["bids"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT 1", "SELECT is not a statement of a job"),
        ("INSERT INTO nowhere SELECT auction FROM bids", "there is no table 'nowhere'"),
        ("INSERT INTO out SELECT auction FROM nowhere", "there is no table 'nowhere'"),
        ("INSERT INTO out SELEKT", "not SQL that Headgate can read"),
        ("INSERT INTO out SELECT 'x", "this is not SQL"),
        ("", "there is no INSERT"),
        ("INSERT INTO out SELECT auction FROM bids ORDER BY 1", "ORDER BY"),
        ("INSERT INTO out SELECT auction FROM bids LIMIT 3", "LIMIT"),
        ("INSERT OVERWRITE out SELECT auction FROM bids", "write INSERT INTO"),
        ("INSERT INTO out SELECT price + 1 FROM bids", "has no column name: add AS"),
        ("INSERT INTO out SELECT auction, price FROM bids GROUP BY auction", "neither in GROUP BY"),
        ("INSERT INTO out SELECT * FROM bids GROUP BY auction", "name the columns"),
        ("INSERT INTO out SELECT auction AS a FROM bids GROUP BY 3", "the SELECT has 1 columns"),
        (
            "INSERT INTO out SELECT count(*) AS n FROM bids GROUP BY ROLLUP(auction)",
            "ROLLUP",
        ),
        (
            "INSERT INTO out SELECT count(*) AS n FROM bids GROUP BY window(ts, '1 month')",
            "is not an interval",
        ),
        ("INSERT INTO out SELECT b.* FROM bids b", r"write \*"),
        (
            "INSERT INTO out SELECT price FROM bids b JOIN sales s ON b.auction = s.seller",
            "give the columns one name first",
        ),
        (
            "INSERT INTO out SELECT price FROM bids b JOIN sales s ON b.price > s.seller",
            "a join is on equal columns",
        ),
        ("INSERT INTO out SELECT price FROM bids CROSS JOIN sales", "CROSS"),
        ("INSERT INTO out SELECT auction FROM bids UNION SELECT auction FROM bids", "UNION ALL"),
        ("CREATE TABLE t (a INT)", r"WITH \('connector'"),
        ("CREATE TABLE t (a INT) WITH ('format' = 'csv')", "has no 'connector'"),
        ("CREATE TABLE t (a INT) WITH (connector = files)", "is not 'option' = 'value'"),
        ("CREATE VIEW v AS SELECT 1", "only tables can be created"),
        ("SET 'colour' = 'red'", "there is no setting 'colour'"),
    ],
)
def test_what_cannot_be_is_told_with_what_to_do(text: str, told: str) -> None:
    with pytest.raises(SqlFault, match=told):
        graph_of(text, _catalogue())


def test_a_catalogue_with_a_mistake_says_which() -> None:
    with pytest.raises(SqlFault, match="unknown field 'sorces'"):
        read_catalogue({"sorces": {}})
    with pytest.raises(SqlFault, match="table 'a' of the catalogue has no connector"):
        read_catalogue({"sources": {"a": {"path": "x"}}})
