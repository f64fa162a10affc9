"""`console`: the first rows of each batch, as text."""

from collections.abc import Callable
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from jobmanager.core.graph.connectors.console import ConsoleSink
from jobmanager.core.graph.sinks import Sink
from taskrunner import logs
from taskrunner.sinks.directory import Guard
from taskrunner.spark.connectors.batch_sink import BatchSink
from taskrunner.spark.connectors.writing import SinkWriter, WriteContext

_ROWS_SHOWN = 20
log = logs.get("job")


class Shown(BatchSink):
    def __init__(self, show: Callable[[str], None], guard: Guard) -> None:
        self._show = show
        self._guard = guard

    def write(self, rows: DataFrame, batch: int) -> int:
        found = rows.collect()
        if found:
            lines = [f"batch {batch}: {len(found)} rows", " | ".join(rows.columns)]
            lines += [" | ".join(str(value) for value in row) for row in found[:_ROWS_SHOWN]]
            with self._guard():
                self._show("\n".join(lines))
        return len(found)


def _open(sink: Sink, console: ConsoleSink, context: WriteContext) -> BatchSink:
    show = partial(log.info, "console", sink=sink.id)
    return Shown(lambda text: show(text=text), context.guard)


def _pass_on(
    sink: Sink, console: ConsoleSink, rows: DataFrame, context: WriteContext
) -> DataStreamWriter:
    """Spark prints the rows to the runner's standard output at the end of each interval."""
    return rows.writeStream.format("console").options(numRows=str(_ROWS_SHOWN), truncate="false")


READERS = ()
WRITERS = (SinkWriter(ConsoleSink, _open, pass_on=_pass_on),)
