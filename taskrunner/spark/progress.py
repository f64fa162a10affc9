"""The progress of a region, from Spark's progress reports and its logs."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from jobmanager.core import spark_order
from jobmanager.core.graph import JobGraph, Source
from jobmanager.core.ids import RegionId, VertexId
from jobmanager.protocol.messages import RegionProgress
from taskrunner.core import exhaustion
from taskrunner.snapshots.snapshot import offsets_by_source
from taskrunner.snapshots.spark_log import SparkLog, moment_of


class ProgressMeter:
    """Sums up the progress of one region's query over one attempt."""

    def __init__(self, graph: JobGraph, region: RegionId, log: SparkLog) -> None:
        self._graph = graph
        self._region = region
        self._log = log
        self._sources = spark_order.sources(graph, VertexId(region))
        self._batch_before = log.last_committed()
        self._last_seen = ""
        self._input_rows = 0

    def read(
        self, query: StreamingQuery | None, is_active: bool, output_rows: int
    ) -> RegionProgress:
        """The progress up to now."""
        latest = self._take_reports(query)
        batch = self._log.last_committed()
        at_last = {} if batch is None else self._at(batch)
        return RegionProgress(
            region=self._region,
            is_active=is_active,
            is_idle=is_active and _is_idle(query),
            input_rows=self._input_rows,
            output_rows=output_rows,
            input_rows_per_second=_rate(latest.inputRowsPerSecond) if latest else 0.0,
            processed_rows_per_second=_rate(latest.processedRowsPerSecond) if latest else 0.0,
            batch_duration_ms=latest.batchDuration if latest else 0,
            state_rows=sum(max(0, one.numRowsTotal) for one in _operators(latest)),
            state_bytes=sum(max(0, one.memoryUsedBytes) for one in _operators(latest)),
            batch=batch,
            **at_last,
        )

    def _at(self, batch: int) -> dict[str, Any]:
        """What the logs say of a committed batch."""
        committed = self._log.directory / "commits" / str(batch)
        before = -1 if self._batch_before is None else self._batch_before
        return {
            "batches": batch - before,
            "watermark": moment_of(self._log.offsets(batch).watermark_ms),
            "offsets": offsets_by_source(self._graph, self._region, self._log, batch),
            "progressed_at": datetime.fromtimestamp(committed.stat().st_mtime, UTC),
        }

    def _take_reports(self, query: StreamingQuery | None) -> StreamingQueryProgress | None:
        """Counts what is new among Spark's recent reports; gives the latest of them."""
        reports = query.recentProgress if query is not None else []
        for report in reports:
            # an idle query reports the batch it waits for again and again: go by time
            if report.timestamp > self._last_seen:
                self._last_seen = report.timestamp
                self._input_rows += sum(self._rows_read(report))
        return reports[-1] if reports else None

    def _rows_read(self, report: StreamingQueryProgress) -> Iterable[int]:
        if len(report.sources) != len(self._sources):
            yield report.numInputRows
            return
        for vertex_id, source in zip(self._sources, report.sources, strict=True):
            vertex = self._graph.vertex(vertex_id)
            assert isinstance(vertex, Source)
            yield exhaustion.rows_read(
                vertex.connector,
                _offset(source.startOffset),
                _offset(source.endOffset),
                source.numInputRows,
            )


def _is_idle(query: StreamingQuery | None) -> bool:
    """Seen in Spark 4.3: a query says so after a trigger that found no new data."""
    return query is not None and query.status["message"] == "Waiting for data to arrive"


def _operators(report: StreamingQueryProgress | None) -> list[Any]:
    return list(report.stateOperators) if report else []


def _rate(value: float | None) -> float:
    """Spark divides by zero now and then; JSON has no NaN."""
    return round(value, 3) if value is not None and 0 <= value < float("inf") else 0.0


def _offset(text: str | None) -> int | None:
    return int(text) if text is not None and text.lstrip("-").isdigit() else None
