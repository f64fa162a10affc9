"""Windows in Python by key group, in streaming jobs, against plain Python."""

from tests.integration.spark.jobs import JobUnderTest, files_sink, second, table


def test_the_published_example(job: JobUnderTest) -> None:
    """Values 1 to 6, a tumbling count window of 3."""
    rows = [{"id": n, "k": "a", "v": n, "ts": second(n).isoformat()} for n in range(1, 7)]
    window = {
        "id": "threes",
        "op": "window",
        "inputs": ["rows"],
        "key": ["k"],
        "window": {"count": 3},
        "aggregate": {"n": "count(*)", "total": "sum(v)", "values": "collect_list(v)"},
    }
    job.define(table(rows), window, files_sink("threes")).run()

    assert sorted(job.output(), key=lambda row: row["pane"]) == [
        {"k": "a", "pane": 1, "n": 3, "total": 6, "values": [1, 2, 3]},
        {"k": "a", "pane": 2, "n": 3, "total": 15, "values": [4, 5, 6]},
    ]
