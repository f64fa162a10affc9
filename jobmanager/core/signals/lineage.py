"""OpenLineage events of a job.

A job of Headgate is one run: the id of the run is the id of the job. START is the submission,
RUNNING says that the job runs and how many rows it has read and written, COMPLETE, ABORT and FAIL
are its end.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID, uuid5

from jobmanager.core.graph.job_graph import JobGraph, Mode
from jobmanager.core.ids import JobId
from jobmanager.core.progress import RegionProgress
from jobmanager.core.signals.lineage_datasets import LineageDataset, inputs_of, outputs_of

_SPEC = "https://openlineage.io/spec"
_EVENT_SCHEMA = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_LONGEST_MESSAGE = 2000
_KEYS = UUID("b2a8a0a0-5a0e-5f0e-9d0b-6c1f5c1f7d11")
"""The namespace of the idempotency ids."""


class LineageEventType(StrEnum):
    START = "START"
    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    ABORT = "ABORT"
    FAIL = "FAIL"


EVENTS: Mapping[str, LineageEventType] = {
    "job_submitted": LineageEventType.START,
    "job_running": LineageEventType.RUNNING,
    "job_finished": LineageEventType.COMPLETE,
    "job_cancelled": LineageEventType.ABORT,
    "job_failed": LineageEventType.FAIL,
}
"""By the kind of a history entry."""


@dataclass(frozen=True, slots=True)
class RowCounts:
    """What the present attempt has read and written so far."""

    written: Mapping[str, int]
    """By sink."""
    read: Mapping[str, int]
    """By source, where it is known."""


@dataclass(frozen=True, slots=True)
class LineageRun:
    """A job, as OpenLineage sees it."""

    job_id: JobId
    job_name: str
    graph: JobGraph
    data_root: str
    """What relative paths of the graph are relative to."""


@dataclass(frozen=True, slots=True)
class LineageProducer:
    version: str
    spark_version: str
    namespace: str = "default"
    """Of jobs."""

    def event(
        self,
        kind: LineageEventType,
        run: LineageRun,
        at: datetime,
        rows: RowCounts | None = None,
        error: str | None = None,
    ) -> str:
        """Return an event as JSON text."""
        counts = rows or RowCounts({}, {})
        made = {
            "eventType": kind,
            "eventTime": at.isoformat(),
            "producer": self._producer,
            "schemaURL": _EVENT_SCHEMA,
            "run": {"runId": str(run.job_id), "facets": self._run_facets(error)},
            "job": {
                "namespace": self.namespace,
                "name": run.job_name,
                "facets": {"jobType": self._job_type(run.graph)},
            },
            "inputs": [
                self._dataset(one, "inputFacets", "inputStatistics", counts.read)
                for one in inputs_of(run.graph, run.data_root)
            ],
            "outputs": [
                self._dataset(one, "outputFacets", "outputStatistics", counts.written)
                for one in outputs_of(run.graph, run.data_root)
            ],
        }
        return json.dumps(made, ensure_ascii=False)

    @property
    def _producer(self) -> str:
        return f"urn:headgate:jobmanager:{self.version}"

    def _run_facets(self, error: str | None) -> dict[str, Any]:
        facets = {
            "processing_engine": self._facet(
                "1-1-1", "ProcessingEngineRunFacet", name="spark", version=self.spark_version
            )
        }
        if error is not None:
            facets["errorMessage"] = self._facet(
                "1-0-1",
                "ErrorMessageRunFacet",
                message=error[:_LONGEST_MESSAGE],
                programmingLanguage="PYTHON",
            )
        return facets

    def _job_type(self, graph: JobGraph) -> dict[str, Any]:
        is_batch = graph.mode is Mode.BATCH
        return self._facet(
            "2-0-4",
            "JobTypeJobFacet",
            processingType="BATCH" if is_batch else "STREAMING",
            integration="HEADGATE",
            jobType="JOB",
        )

    def _dataset(
        self, one: LineageDataset, facets: str, statistics: str, rows: Mapping[str, int]
    ) -> dict[str, Any]:
        made: dict[str, Any] = {"namespace": one.namespace, "name": one.name, "facets": {}}
        if one.columns:
            fields = [
                {"name": column.name, **({"type": column.type} if column.type else {})}
                for column in one.columns
            ]
            made["facets"]["schema"] = self._facet("1-2-0", "SchemaDatasetFacet", fields=fields)
        if one.vertex in rows:
            is_output = statistics == "outputStatistics"
            kind = "OutputStatisticsOutput" if is_output else "InputStatisticsInput"
            version = "1-0-2" if is_output else "1-0-0"
            facet = self._facet(version, f"{kind}DatasetFacet", rowCount=rows[one.vertex])
            made[facets] = {statistics: facet}
        return made

    def _facet(self, version: str, name: str, /, **values: Any) -> dict[str, Any]:
        schema = f"{_SPEC}/facets/{version}/{name}.json#/$defs/{name}"
        return {"_producer": self._producer, "_schemaURL": schema, **values}


def rows_of(graph: JobGraph, regions: Sequence[RegionProgress]) -> RowCounts:
    """Return the row counts that the reports of a runner tell. A region is named by its sink. Rows
    that it read are those of its source, if it has one source only.
    """
    sinks = {vertex.id for vertex in graph.vertices if vertex.op == "sink"}
    written = {one.region: one.output_rows for one in regions if one.region in sinks}
    read: dict[str, int] = {}
    for one in regions:
        if len(one.offsets) == 1:
            source = next(iter(one.offsets))
            read[source] = max(read.get(source, 0), one.input_rows)
    return RowCounts(written, read)


def key_of_entry(history_id: int) -> UUID:
    return uuid5(_KEYS, f"history/{history_id}")


def key_of_report(job_id: JobId, slot: int) -> UUID:
    """Return the idempotency id of the RUNNING event of a span of time: whoever leads in it."""
    return uuid5(_KEYS, f"running/{job_id.hex}/{slot}")
