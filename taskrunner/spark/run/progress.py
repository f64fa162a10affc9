"""The progress of a region, from Spark's progress reports and its logs."""

import statistics
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from jobmanager.core.graph.connectors.source_connector import SourceConnector
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.sources import Source
from jobmanager.core.ids import RegionId, VertexId
from jobmanager.core.plan import spark_order
from jobmanager.core.progress import OperatorProgress, RegionProgress, SourceProgress
from taskrunner.core.stall_detector import QueryObservation, StallDetector
from taskrunner.core.uncheckpointed import UncheckpointedWork
from taskrunner.snapshots.snapshot import offsets_by_source
from taskrunner.snapshots.spark_log import SparkLog, moment_of
from taskrunner.spark.connectors.reading import finite_rate, unreadable_metric
from taskrunner.spark.connectors.registry import READERS

_MOST_OF_AN_ACTIVITY = 200
_WHOLE, _WORK = "triggerExecution", "addBatch"
"""Spark's names of durations: of a whole trigger, and of its part that runs the batch."""


class ProgressMeter:
    """Sums up the progress of one region's query over one attempt."""

    def __init__(self, graph: JobGraph, region: RegionId, log: SparkLog) -> None:
        self._graph = graph
        self._region = region
        self._log = log
        self._sources = spark_order.sources(graph, VertexId(region))
        self._keyed = spark_order.keyed(graph, VertexId(region))
        self._batch_before = log.last_committed()
        self._stall_detector = StallDetector(time.monotonic())
        self._last_seen = ""
        self._input_rows = 0
        self.written_rows = 0
        """What Spark's own sinks report; a sink of ours counts by itself."""
        self._busy_ms = 0
        self._measured_batches = 0
        self._phases_ms: dict[str, int] = {}
        self._unreadable: dict[VertexId, int] = {}
        self._uncheckpointed = UncheckpointedWork()
        self._checkpointed: int | None = None

    def checkpointed(self, batch: int) -> None:
        """Note the batch of a completed checkpoint. Any thread may call it."""
        self._checkpointed = batch

    def read(
        self, query: StreamingQuery | None, is_active: bool, output_rows: int
    ) -> RegionProgress:
        """The progress up to now."""
        reports = query.recentProgress if query is not None else []
        self._count(reports)
        if self._checkpointed is not None:
            self._uncheckpointed.cover(self._checkpointed)
        latest = reports[-1] if reports else None
        batch = self._log.last_committed()
        at_last = {} if batch is None else self._at(batch)
        moves = self._moves(query, batch, latest) if query is not None and is_active else {}
        return RegionProgress(
            region=self._region,
            is_active=is_active,
            input_rows=self._input_rows,
            output_rows=output_rows,
            input_rows_per_second=finite_rate(latest.inputRowsPerSecond) if latest else 0.0,
            processed_rows_per_second=finite_rate(latest.processedRowsPerSecond) if latest else 0.0,
            batch_duration_ms=latest.batchDuration if latest else 0,
            state_rows=sum(max(0, one.numRowsTotal) for one in _operators(latest)),
            state_bytes=sum(max(0, one.memoryUsedBytes) for one in _operators(latest)),
            median_batch_ms=_median(reports),
            batch=batch,
            busy_ms=self._busy_ms,
            measured_batches=self._measured_batches,
            phases_ms=dict(self._phases_ms),
            uncheckpointed_rows=self._uncheckpointed.rows,
            uncheckpointed_busy_ms=self._uncheckpointed.busy_ms,
            has_checkpoint_of_attempt=self._checkpointed is not None,
            sources=self._source_progress(latest),
            operators=self._operator_progress(latest),
            **at_last,
            **moves,
        )

    def _at(self, batch: int) -> dict[str, Any]:
        """The offsets and watermark of a committed batch, from the logs."""
        committed = self._log.directory / "commits" / str(batch)
        before = -1 if self._batch_before is None else self._batch_before
        return {
            "batches": batch - before,
            "watermark": moment_of(self._log.offsets(batch).watermark_ms),
            "offsets": offsets_by_source(self._graph, self._region, self._log, batch),
            "progressed_at": datetime.fromtimestamp(committed.stat().st_mtime, UTC),
        }

    def _moves(
        self, query: StreamingQuery, batch: int | None, latest: StreamingQueryProgress | None
    ) -> dict[str, Any]:
        """Whether the query has work, and whether it makes progress."""
        status = query.status
        sight = QueryObservation(
            committed=batch,
            reported=latest.timestamp if latest else "",
            message=str(status["message"]),
            has_data=bool(status["isDataAvailable"]),
        )
        unmoved = self._stall_detector.see(sight, time.monotonic())
        return {
            "unmoved_ms": int(unmoved * 1000),
            "is_idle": sight.is_idle,
            "input_waiting": sight.runs_batch or _has_backlog(latest, is_idle=sight.is_idle),
            "batch_started_at": self._began(0 if batch is None else batch + 1),
            "activity": sight.message[:_MOST_OF_AN_ACTIVITY],
        }

    def _began(self, batch: int) -> datetime | None:
        """When the batch was begun, by Spark's log; None: it was not."""
        with suppress(FileNotFoundError):
            begun = self._log.directory / "offsets" / str(batch)
            return datetime.fromtimestamp(begun.stat().st_mtime, UTC)
        return None

    def _count(self, reports: Sequence[StreamingQueryProgress]) -> None:
        """Adds the new ones among Spark's recent reports."""
        for report in reports:
            # an idle query reports the batch it waits for again and again: compare timestamps
            if report.timestamp > self._last_seen:
                self._last_seen = report.timestamp
                rows = sum(self._rows_read(report))
                self._input_rows += rows
                self.written_rows += max(0, report.sink.numOutputRows)
                if _WORK in report.durationMs:
                    spent = int(report.durationMs.get(_WHOLE, 0))
                    self._uncheckpointed.add(report.batchId, rows, spent)
                self._count_unreadable(report)
                self._count_time(report)

    def _count_unreadable(self, report: StreamingQueryProgress) -> None:
        for vertex in self._sources:
            found: Any = report.observedMetrics.get(unreadable_metric(vertex))
            if found is not None:
                self._unreadable[vertex] = self._unreadable.get(vertex, 0) + int(found[0])

    def _count_time(self, report: StreamingQueryProgress) -> None:
        """Adds the durations of reports that ran a batch; triggers without input do not count."""
        if _WORK not in report.durationMs:
            return
        self._measured_batches += 1
        for phase, spent in report.durationMs.items():
            if phase == _WHOLE:
                self._busy_ms += int(spent)
            else:
                self._phases_ms[phase] = self._phases_ms.get(phase, 0) + int(spent)

    def _source_progress(self, latest: StreamingQueryProgress | None) -> list[SourceProgress]:
        if latest is None or len(latest.sources) != len(self._sources):
            return []
        return [
            replace(
                READERS[type(self._connector(vertex))].progress(vertex, one),
                unreadable_rows=self._unreadable.get(vertex, 0),
            )
            for vertex, one in zip(self._sources, latest.sources, strict=True)
        ]

    def _operator_progress(self, latest: StreamingQueryProgress | None) -> list[OperatorProgress]:
        operators = _operators(latest)
        # Spark has merged or split sources: then a number cannot be assigned to a source
        if len(operators) != len(self._keyed):
            return []
        return [
            OperatorProgress(
                vertex=vertex,
                operator=one.operatorName,
                updated_rows=max(0, one.numRowsUpdated),
                dropped_rows=max(0, one.numRowsDroppedByWatermark),
                state_rows=max(0, one.numRowsTotal),
                state_bytes=max(0, one.memoryUsedBytes),
                commit_ms=max(0, one.commitTimeMs),
            )
            for vertex, one in zip(self._keyed, operators, strict=True)
        ]

    def _rows_read(self, report: StreamingQueryProgress) -> Iterable[int]:
        if len(report.sources) != len(self._sources):
            yield report.numInputRows
            return
        for vertex_id, source in zip(self._sources, report.sources, strict=True):
            yield self._connector(vertex_id).rows_read(
                _offset(source.startOffset), _offset(source.endOffset), source.numInputRows
            )

    def _connector(self, source: VertexId) -> SourceConnector:
        vertex = self._graph.vertex(source)
        assert isinstance(vertex, Source)
        return vertex.connector


def _has_backlog(report: StreamingQueryProgress | None, *, is_idle: bool) -> bool | None:
    """Whether a source has unread input; None: no source reports it."""
    known = (
        [one for one in report.sources if one.latestOffset not in (None, "null")] if report else []
    )
    if any(one.latestOffset != one.endOffset for one in known):
        return True
    return False if known or is_idle else None


def _median(reports: Sequence[StreamingQueryProgress]) -> int:
    durations = [one.batchDuration for one in reports if one.numInputRows]
    return int(statistics.median(durations)) if durations else 0


def _operators(report: StreamingQueryProgress | None) -> list[Any]:
    return list(report.stateOperators) if report else []


def _offset(text: str | None) -> int | None:
    return int(text) if text is not None and text.lstrip("-").isdigit() else None
