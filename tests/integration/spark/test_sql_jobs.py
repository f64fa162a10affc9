"""SQL as a job on Spark, against plain Python."""

from collections import defaultdict
from datetime import UTC, datetime

from jobmanager.client.sql_graph import graph_of
from jobmanager.client.sql_tables import read_catalogue
from tests.integration.spark.jobs import JobUnderTest

_STATEMENT = """
INSERT INTO out
WITH big AS (SELECT *, price * 2 AS twice FROM bids b WHERE b.price > 10)
SELECT window.start AS at, upper(item) AS name, sum(twice) / 2 AS revenue, count(*) AS bids
FROM big GROUP BY window(ts, '10 seconds'), name HAVING count(*) > 1
"""


def test_a_windowed_statement_gives_what_plain_python_gives(job: JobUnderTest) -> None:
    rows = [
        {"item": "ab"[n % 2], "price": n, "ts": datetime.fromtimestamp(1000 + n * 3, UTC)}
        for n in range(40)
    ]
    catalogue = read_catalogue(
        {
            "sources": {
                "bids": {
                    "connector": "table",
                    "schema": "item STRING, price BIGINT, ts TIMESTAMP",
                    "rows": [{**row, "ts": f"{row['ts']:%Y-%m-%dT%H:%M:%SZ}"} for row in rows],
                    "watermark": {"column": "ts", "delay": "5s"},
                }
            },
            "sinks": {"out": {"connector": "files", "format": "parquet", "path": "out"}},
        }
    )

    job.define(*graph_of(_STATEMENT, catalogue)["vertices"]).run()

    groups: dict[tuple[int, str], list[int]] = defaultdict(list)
    for n, row in enumerate(rows):
        if n > 10:
            seconds = 1000 + n * 3
            groups[seconds - seconds % 10, str(row["item"]).upper()].append(n)
    assert {
        (int(row["at"].timestamp()), row["name"], row["revenue"], row["bids"])
        for row in job.output()
    } == {(*key, sum(found), len(found)) for key, found in groups.items() if len(found) > 1}
