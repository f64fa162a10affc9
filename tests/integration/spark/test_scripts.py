"""PySpark programs as jobs: read, run, killed, rescaled, and compared with plain Python."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobmanager.core import artifact
from jobmanager.core.graph.script_graph import FoundQuery, FoundSink, ScriptCall, graph_of
from jobmanager.files.artifacts import ArtifactShelf
from jobmanager.protocol.inspection import DescribeScript, ScriptDescribed
from taskrunner.inspector.scripts import ScriptDesk
from taskrunner.spark.scripts.script_program import ScriptFailed
from taskrunner.spark.session.shipped_artifacts import shipped
from tests.integration.spark.jobs import JobUnderTest

_SCRIPT = """
import sys
from pyspark.sql import SparkSession, functions as F

THRESHOLD = 1

def main():
    spark = (
        SparkSession.builder.appName("mine").master("local[7]")
        .config("spark.sql.shuffle.partitions", "9").getOrCreate()
    )
    spark.conf.set("spark.sql.shuffle.partitions", "11")
    words = spark.readStream.schema("word STRING, n BIGINT").json("in")
    big = words.where(F.col("n") > THRESHOLD)

    def keep_counts(batch, number):
        rows = [(row.word, row["count"]) for row in batch.collect()]
        with open(sys.argv[1], "a") as out:
            for word, count in rows:
                out.write(f'["{word}", {count}]\\n')

    counts = big.groupBy("word").count()
    query = (
        counts.writeStream.queryName("Counts").outputMode("update")
        .option("checkpointLocation", "/nowhere").foreachBatch(keep_counts).start()
    )
    files = big.writeStream.format("parquet").option("path", "out")
    files.trigger(processingTime="100 milliseconds").start()
    print("started", query.name)
    try:
        spark.streams.awaitAnyTermination()
    except Exception:
        sys.exit("never")
    finally:
        spark.stop()

if __name__ == "__main__":
    main()
"""

_ARGUMENTS = ["counts.jsonl"]
_LEFT_OUT = ("script", "description", "arguments")
_UNKNOWN_COLUMN = """from pyspark.sql import SparkSession
rows = SparkSession.builder.getOrCreate().readStream.format("rate").load()
rows.selectExpr("nope").writeStream.start()
"""


@pytest.fixture(autouse=True)
def _nothing_left(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(Path.cwd())  # a script goes elsewhere,
    monkeypatch.setattr(sys, "argv", sys.argv)  # and has arguments of its own
    yield
    shipped.become(spark, Path("/nowhere"), [])


def _describe(job: JobUnderTest, text: str) -> ScriptDescribed:
    content = text.encode()
    artifact_id = artifact.id_of(content)
    draft = ArtifactShelf(job.root).begin("app.py")
    draft.write_bytes(content)
    ArtifactShelf(job.root).keep(artifact_id, draft)
    asked = DescribeScript(
        script=artifact_id,
        arguments=_ARGUMENTS,
        artifacts=[],
        parallelism=2,
        spark={},
        data_root=str(job.root),
        storage=job.root.as_uri(),
    )
    return ScriptDesk(job.spark).describe(asked)


def _document(job: JobUnderTest, text: str) -> dict[str, Any]:
    found = [
        FoundQuery(
            one.name,
            one.sources,
            one.state,
            one.output_mode,
            one.trigger,
            FoundSink(**one.sink.model_dump()),
        )
        for one in _describe(job, text).queries
    ]
    call = ScriptCall(artifact.id_of(text.encode()), _ARGUMENTS, [], "app", 2, {})
    return graph_of(call, found)


def _feed(job: JobUnderTest, number: int, rows: list[tuple[str, int]]) -> None:
    (job.root / "in").mkdir(exist_ok=True)
    text = "".join(json.dumps({"word": word, "n": n}) + "\n" for word, n in rows)
    aside = job.root / f".{number}"
    aside.write_text(text)
    aside.rename(job.root / "in" / f"{number}.json")


def _counts(job: JobUnderTest) -> dict[str, int]:
    """The last count of each word: the batch function may have seen a batch twice."""
    path = job.root / "counts.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(json.loads(line) for line in lines)


def test_a_script_becomes_a_graph_with_its_sources_state_and_sinks(job: JobUnderTest) -> None:
    (job.root / "in").mkdir()
    partitions = job.spark.conf.get("spark.sql.shuffle.partitions")

    document = _document(job, _SCRIPT)

    shown = [
        {
            name: value
            for name, value in one.items()
            if name not in ("script", "description", "arguments")
        }
        for one in document["vertices"]
    ]
    assert shown == [
        {"id": "counts_source", "op": "source", "connector": "script"},
        {
            "id": "counts_query",
            "op": "script",
            "inputs": ["counts_source"],
            "query": "Counts",
            "output_mode": "update",
            "state": ["aggregate"],
        },
        {"id": "counts", "op": "sink", "inputs": ["counts_query"], "connector": "script"},
        {"id": "q2_source", "op": "source", "connector": "script"},
        {
            "id": "q2_query",
            "op": "script",
            "inputs": ["q2_source"],
            "query": "q2",
            "output_mode": "append",
            "batch_interval": "100ms",
        },
        {
            "id": "q2",
            "op": "sink",
            "inputs": ["q2_query"],
            "connector": "files",
            "format": "parquet",
            "path": "out",
        },
    ]
    assert job.spark.conf.get("spark.sql.shuffle.partitions") == partitions


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1\nraise ValueError('no')", r"app.py, line 2: ValueError: no"),
        ("import sys\nsys.exit('bad')", "ended with 'bad'"),
        ("x = 1", "starts no streaming query"),
        ("import no_such_thing", "line 1: ModuleNotFoundError"),
        (_UNKNOWN_COLUMN, "line 3: AnalysisException"),
    ],
)
def test_a_script_that_fails_says_where(job: JobUnderTest, text: str, told: str) -> None:
    with pytest.raises(ScriptFailed, match=told):
        _describe(job, text)


def test_a_scripts_queries_survive_a_crash_and_another_parallelism(job: JobUnderTest) -> None:
    """Several batches, an attempt that is given up, 2 then 3 state partitions."""
    sent: Counter[str] = Counter()

    def feed(number: int) -> None:
        rows = [(f"w{n % 7}", n % 5) for n in range(number * 40, number * 40 + 40)]
        sent.update(word for word, n in rows if n > 1)
        _feed(job, number, rows)

    def is_through() -> bool:
        for region in job.running.regions if job.running else []:
            region.poll()
        return _counts(job) == sent and len(job.output()) == sum(sent.values())

    feed(0)
    document = _document(job, _SCRIPT)
    vertices = document["vertices"]
    job.define(*vertices, artifacts=document["artifacts"])
    job.start()
    job.wait(is_through)
    completed = job.checkpoint(1)
    feed(1)
    job.wait(lambda: len(job.output()) == sum(sent.values()))
    job.stop()
    job.start(completed)
    job.wait(is_through)
    feed(2)
    job.rescale(3)
    job.wait(is_through)
    feed(3)
    job.wait(is_through)
    manifest = job.checkpoint(2)

    partitions = {
        region: sorted((one.vertex, one.subtask) for one in found.pointers)
        for region, found in manifest.regions.items()
    }
    assert partitions == {"counts": [("counts_query", n) for n in range(3)], "q2": []}
    words = Counter(str(row["word"]) for row in job.output())
    assert words == sent
