import pytest

from jobmanager.core.graph.sql_text import SqlState, TooMuch, state_of


@pytest.mark.parametrize(
    ("query", "streams", "state"),
    [
        ("SELECT k, v * 2 AS x FROM a WHERE v > 1", 1, SqlState.NONE),
        ("SELECT 'GROUP BY k' AS text, `sum(v)` FROM a", 1, SqlState.NONE),
        ("SELECT k -- GROUP BY k\n FROM a /* count(*) */", 1, SqlState.NONE),
        ("select k, sum(v) from a group\n by k", 1, SqlState.AGGREGATE),
        ("SELECT count(*) AS n FROM a", 1, SqlState.TOTAL),
        ("SELECT max FROM a", 1, SqlState.NONE),
        ("SELECT count(*) FROM a GROUP BY window(ts, '1 second'), k", 1, SqlState.WINDOW),
        ("SELECT count(*) FROM a GROUP BY k, session_window(ts, '1 s')", 1, SqlState.WINDOW),
        ("WITH b AS (SELECT * FROM a) SELECT k, sum(v) FROM b GROUP BY k", 1, SqlState.AGGREGATE),
        ("SELECT * FROM (SELECT k, sum(v) s FROM a GROUP BY k) WHERE s > 1", 1, SqlState.AGGREGATE),
        ("SELECT k FROM a UNION ALL SELECT k FROM b", 2, SqlState.NONE),
        ("SELECT k, 0 n FROM a UNION ALL SELECT k, count(*) FROM b GROUP BY k", 2,
         SqlState.AGGREGATE),
        ("SELECT * FROM a JOIN b USING (k)", 2, SqlState.JOIN),
        ("SELECT * FROM a JOIN names USING (k)", 1, SqlState.NONE),
        ("SELECT k, sum(v) FROM a JOIN names USING (k) GROUP BY k", 1, SqlState.AGGREGATE),
    ],
)  # fmt: skip
def test_keywords_tell_what_a_query_keeps(query: str, streams: int, state: SqlState) -> None:
    assert state_of(query, streams) is state


@pytest.mark.parametrize(
    "query",
    [
        "SELECT DISTINCT k FROM a",
        "SELECT k FROM a UNION SELECT k FROM b",
        "SELECT k FROM a INTERSECT SELECT k FROM b",
        "SELECT k FROM a EXCEPT SELECT k FROM b",
        "SELECT k, sum(v) FROM a JOIN b USING (k) GROUP BY k",
        "SELECT max(n) FROM (SELECT count(*) n FROM a GROUP BY k)",
    ],
)
def test_what_a_stream_cannot_keep_is_refused(query: str) -> None:
    with pytest.raises(TooMuch):
        state_of(query, 2)
