"""Sources as DataFrames: streaming in a streaming job, bounded in a batch job."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from jobmanager.core.durations import milliseconds
from jobmanager.core.graph.job_graph import Mode
from jobmanager.core.graph.sources import Source
from taskrunner.core.secret_fields import with_secrets
from taskrunner.spark.compile.compile_context import CompileContext, OperatorCompiler
from taskrunner.spark.compile.time_columns import TIME
from taskrunner.spark.connectors.reading import ReadContext
from taskrunner.spark.connectors.registry import READERS


@dataclass(frozen=True, slots=True)
class Sources:
    """Reads the sources of one job."""

    context: ReadContext
    secret: Callable[[str], str] | None = None
    """Looks up secrets; None: references stay as they are, since nothing is read."""

    def read(self, source: Source, *, is_static: bool = False) -> DataFrame:
        """The source's rows, with the vertex's parallelism; all rows at once if it `is_static`."""
        context = self.context
        if self.secret is not None:
            source = with_secrets(source, self.secret)
        if is_static and context.mode is Mode.STREAMING:
            context = replace(context, mode=Mode.BATCH)
        rows = READERS[type(source.connector)].read(source, source.connector, context)
        if source.parallelism is not None:
            rows = rows.repartition(source.parallelism)
        if source.watermark is None:
            return rows
        if context.mode is Mode.BATCH:
            return rows.withMetadata(source.watermark.column, {TIME: True})
        delay = f"{milliseconds(source.watermark.delay)} milliseconds"
        return rows.withWatermark(source.watermark.column, delay)


def _compile(vertex: Source, inputs: Sequence[DataFrame], context: CompileContext) -> DataFrame:
    return context.read(vertex, is_static=context.is_static)


COMPILERS = (OperatorCompiler(Source, _compile),)
