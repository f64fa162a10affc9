"""`table`: the rows of the graph, written to a file of the job and read like any other file."""

import json

from pyspark.sql import DataFrame

from jobmanager.core.graph.connectors.table import TableSource
from jobmanager.core.graph.sources import Source
from jobmanager.core.snapshots.layout import rows_file
from taskrunner.core.invalid_vertex import VertexRefused
from taskrunner.spark.connectors.reading import ReadContext, SourceReader


def _read(source: Source, table: TableSource, context: ReadContext) -> DataFrame:
    layout, rows = context.layout, rows_file(source.id)
    lines = [json.dumps(row, ensure_ascii=False, default=str) for row in table.rows]
    is_new = layout.work.create(rows, "".join(line + "\n" for line in lines))
    if not is_new and not _are_same(layout.work.read(rows).decode().splitlines(), lines):
        raise VertexRefused(
            "its rows are not those that the job began with, and Spark would not read them: "
            "submit another job for them"
        )
    return context.load("json", source.schema, {"mode": "FAILFAST"}, layout.rows(source.id))


def _are_same(lines: list[str], others: list[str]) -> bool:
    """Whether the rows are the same, whatever the order of their columns."""
    return [json.loads(line) for line in lines] == [json.loads(line) for line in others]


READERS = (SourceReader(TableSource, _read),)
WRITERS = ()
