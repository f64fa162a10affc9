"""Answers what a job has written to a sink last, by reading the output itself."""

from pathlib import Path

from jobmanager.core.graph import graph_document
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.ids import JobId, VertexId
from jobmanager.core.snapshots.storage_uri import local_path
from jobmanager.protocol.inspection import ReadSinkRows, SinkColumn, SinkRows
from taskrunner.inspector.scratch import scratch_in
from taskrunner.snapshots.layout import JobLayout
from taskrunner.spark.run import trial_run
from taskrunner.spark.run.job_paths import JobPaths, rules_of
from taskrunner.spark.run.sink_rows import SinkRowReader
from taskrunner.spark.session.session import Session


class SinkRowDesk:
    def __init__(self, spark: Session, home: Path) -> None:
        self._spark = spark
        self._home = home

    def last_rows(self, asked: ReadSinkRows) -> SinkRows:
        graph = graph_document.parse(asked.graph)
        sink = graph.vertex(VertexId(asked.vertex))
        assert isinstance(sink, Sink)
        with scratch_in(self._home, self._spark) as scratch:
            rules = rules_of(asked.allowed_paths, asked.data_root)
            session = trial_run.session_for(
                self._spark, graph, asked.parallelism, restricts_paths=rules is not None
            )
            storage = local_path(asked.storage) if asked.storage else None
            layout, data_root = JobLayout(scratch / "job"), local_path(asked.data_root)
            places = JobPaths(layout, data_root, storage, rules)
            reader = SinkRowReader(session, graph, JobId(asked.job), asked.parallelism, places)
            found = reader.read(sink, asked.limit)
        return SinkRows(
            columns=[SinkColumn(name=name, type=kind) for name, kind in found.columns],
            rows=found.rows,
            origin=found.origin,
        )
