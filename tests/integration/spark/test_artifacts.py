"""Code of users in a Spark session: shipped, kept apart, and held to what the graph says."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from jobmanager.core import artifact
from jobmanager.core.ids import ArtifactId
from jobmanager.files.artifacts import ArtifactShelf
from taskrunner.functions import FunctionMissing, load
from taskrunner.spark.compile.compiler import InvalidVertex
from taskrunner.spark.session.shipped_artifacts import MissingArtifact, shipped
from tests.integration.spark.jobs import OUT, JobUnderTest

_IN = {
    "id": "rows",
    "op": "source",
    "connector": "table",
    "schema": "k STRING, v BIGINT",
    "rows": [{"k": "a", "v": 1}, {"k": "b", "v": 2}, {"k": "a", "v": 4}],
}
_OUT = {"id": "out", "op": "sink", "connector": "files", "format": "parquet", "path": "out"}


@pytest.fixture(autouse=True)
def _nothing_left(spark: SparkSession) -> Iterator[None]:
    yield
    shipped.become(spark, Path("/nowhere"), [])


def _stored(root: Path, name: str, text: str) -> ArtifactId:
    content = text.encode()
    artifact_id = artifact.id_of(content)
    draft = ArtifactShelf(root).begin(name)
    draft.write_bytes(content)
    ArtifactShelf(root).keep(artifact_id, draft)
    return artifact_id


def test_the_driver_and_the_workers_see_the_jobs_own_version_only(
    spark: SparkSession, tmp_path: Path
) -> None:
    old = _stored(tmp_path, "shared.py", "def double(x):\n    return f'old {x}'\n")
    new = _stored(tmp_path, "shared.py", "def double(x):\n    return f'new {x}'\n")

    seen = []
    for version in (old, new, old):
        shipped.become(spark, tmp_path, [version])
        load("shared:double")

        @sql.udf("string", useArrow=False)
        def in_worker(x: int) -> str:
            import shared  # type: ignore[import-not-found]

            return str(shared.double(x))

        row = spark.range(1).select(in_worker("id").alias("said")).first()
        assert row is not None
        seen.append((load("shared:double")(0), row.said))

    assert seen == [("old 0", "old 0"), ("new 0", "new 0"), ("old 0", "old 0")]
    shipped.become(spark, tmp_path, [])
    with pytest.raises(FunctionMissing, match="'shared' cannot be imported"):
        load("shared:double")
    assert "shared" not in sys.modules


def test_an_artifact_that_is_not_in_storage_is_told(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(MissingArtifact, match=r"f{64} is not in storage"):
        shipped.become(spark, tmp_path, ["f" * 64])


_CODE = """
from pyspark.sql import functions as F

def keep(spark, rows):
    return rows.where("v > 1")

def totals(spark, rows):
    return rows.groupBy("k").agg(F.sum("v").alias("v"))

def windows(spark, rows):
    timed = rows.withColumn("ts", F.timestamp_seconds("v")).withWatermark("ts", "1 second")
    return timed.groupBy(F.window("ts", "10 seconds"), "k").count().select("k", "count")

def swapped(spark, one, two):
    return two.unionByName(one)

def nothing(spark, rows):
    return None

def fails(spark, rows):
    raise ValueError("not today")
"""


def _job(job: JobUnderTest, function: str, output: str, **more: Any) -> JobUnderTest:
    code = _stored(job.root, "own.py", _CODE)
    shipped.become(job.spark, job.root, [code])
    vertex = {"id": "f", "op": "spark", "inputs": ["rows"], "function": function, "output": output}
    return job.define(_IN, {**vertex, **more}, {**_OUT, "inputs": ["f"]}, artifacts=[code])


def test_a_function_of_frames_is_an_operator(job: JobUnderTest) -> None:
    _job(job, "own:keep", "k STRING, v BIGINT").start()
    job.finish()

    assert sorted((row["k"], row["v"]) for row in job.output()) == [("a", 4), ("b", 2)]


def test_declared_state_is_acked_by_every_subtask(job: JobUnderTest) -> None:
    _job(job, "own:totals", "k STRING, v BIGINT", state=["aggregate"]).start()
    job.finish()

    assert sorted((row["k"], row["v"]) for row in job.output()) == [("a", 5), ("b", 2)]
    pointers = job.checkpoint(1).regions[OUT].pointers
    assert sorted((one.vertex, one.subtask) for one in pointers) == [("f", 0), ("f", 1)]


@pytest.mark.parametrize(
    ("function", "output", "more", "told"),
    [
        ("own:totals", "k STRING, v BIGINT", {}, r"write state: \[aggregate\]"),
        ("own:windows", "k STRING, count BIGINT", {}, r"write state: \[window\]"),
        ("own:keep", "k STRING, v BIGINT", {"state": ["join"]}, "it keeps no state"),
        ("own:keep", "k STRING, v INT, w INT", {}, "column 'v' is bigint and not int.*column 'w'"),
        ("own:keep", "k STRING", {}, "also gives v"),
        ("own:nothing", "k STRING", {}, "gave back NoneType"),
        ("own:fails", "k STRING", {}, "raised ValueError: not today"),
        ("own:missing", "k STRING", {}, "has no 'missing'"),
    ],
)
def test_what_a_function_does_is_what_its_vertex_says(
    job: JobUnderTest, function: str, output: str, more: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidVertex, match=f"vertex f: .*{told}"):
        _job(job, function, output, **more).start()


def test_inputs_are_used_in_the_order_in_which_they_are_named(job: JobUnderTest) -> None:
    code = _stored(job.root, "own.py", _CODE)
    shipped.become(job.spark, job.root, [code])
    vertex = {"id": "f", "op": "spark", "function": "own:swapped", "output": "k STRING, v BIGINT"}
    other = {**_IN, "id": "other"}
    out = {**_OUT, "inputs": ["f"]}

    with pytest.raises(InvalidVertex, match="it uses other, rows"):
        job.define(_IN, other, {**vertex, "inputs": ["rows", "other"]}, out).start()
