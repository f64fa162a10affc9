"""Reads the newest rows of a sink, without the job that writes them."""

import json
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from jobmanager.core import secret_references
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.ids import JobId
from jobmanager.core.plan.job_plan import plan_of
from taskrunner.core.cut_values import cut
from taskrunner.spark.connectors.reading_back import CannotReadBack, ReadBackContext
from taskrunner.spark.connectors.registry import WRITERS
from taskrunner.spark.run import trial_run
from taskrunner.spark.run.job_paths import JobPaths
from taskrunner.spark.session.column_names import column
from taskrunner.spark.session.shipped_artifacts import shipped

_ROW = "__headgate_row"


@dataclass(frozen=True, slots=True)
class ShownRows:
    """Rows as JSON."""

    columns: list[tuple[str, str]]
    """Names and types; empty: nothing has been written yet."""
    rows: list[dict[str, Any]]
    origin: str


@dataclass(frozen=True, slots=True)
class SinkRowReader:
    spark: SparkSession
    graph: JobGraph
    job: JobId
    parallelism: int
    paths: JobPaths

    def read(self, sink: Sink, limit: int) -> ShownRows:
        """Raises `CannotReadBack` or `PathNotAllowed`."""
        last_rows = WRITERS[type(sink.connector)].last_rows
        if last_rows is None:
            raise CannotReadBack(
                f"rows of a sink with connector {sink.connector.name} are not shown: read them "
                "with the tools of the system that has them"
            )
        _refuse_secrets(sink)

        def columns() -> StructType:
            return self._columns(sink)

        context = ReadBackContext(self.spark, self.job, self.paths.resolve, columns)
        found = last_rows(sink, sink.connector, context, limit)
        if found.rows is None:
            return ShownRows([], [], found.origin)
        fields = found.rows.schema.fields
        named = [(one.name, one.dataType.simpleString()) for one in fields]
        return ShownRows(named, _as_json(found.rows.limit(limit)), found.origin)

    def _columns(self, sink: Sink) -> StructType:
        if self.paths.storage is not None:
            shipped.become(self.spark, self.paths.storage, self.graph.artifacts)
        regions = plan_of(self.graph, self.parallelism).regions
        region = next(one for one in regions if sink.id in one.vertices)
        rows = trial_run.rows_of(self.spark, self.graph, self.parallelism, self.paths, region)
        return rows.schema


def _refuse_secrets(sink: Sink) -> None:
    """Secrets are looked up by runners only."""
    wanted: set[str] = set()

    def note(name: str) -> str:
        wanted.add(name)
        return ""

    secret_references.filled(sink.options, note)
    if sink.connector.secret_fields:
        secret_references.filled(sink.connector, note)
    if wanted:
        raise CannotReadBack(
            f"reading sink {sink.id} needs the secret {', '.join(sorted(wanted))}, which only the "
            "runner of the job can look up: use the tools of the system that has the rows"
        )


def _as_json(rows: DataFrame) -> list[dict[str, Any]]:
    text = sql.to_json(sql.struct(*map(column, rows.columns)), {"ignoreNullFields": "false"})
    return [cut(json.loads(one[_ROW])) for one in rows.select(text.alias(_ROW)).collect()]
