"""Describes a script: runs it up to the point where it waits for its queries."""

from collections.abc import Mapping
from typing import Any

from jobmanager.core.ids import ArtifactId
from jobmanager.core.snapshots.storage_uri import local_path
from jobmanager.files.artifacts import ArtifactShelf
from jobmanager.protocol.inspection import (
    DescribeScript,
    ScriptDescribed,
    ScriptQuery,
    ScriptQuerySink,
)
from taskrunner.spark.compile import plan_states
from taskrunner.spark.scripts import script_program
from taskrunner.spark.scripts.script_writer import RecordedWriter
from taskrunner.spark.session.session import Session
from taskrunner.spark.session.shipped_artifacts import shipped


class ScriptDesk:
    def __init__(self, spark: Session) -> None:
        self._spark = spark

    def describe(self, asked: DescribeScript) -> ScriptDescribed:
        """Makes a job graph from the script. Raises `ScriptFailed`, `MissingArtifact`."""
        storage = local_path(asked.storage)
        shipped.become(self._spark, storage, [asked.script, *asked.artifacts])
        session = self._spark.newSession()
        session.conf.set("spark.sql.shuffle.partitions", str(asked.parallelism))
        for name, value in asked.spark.items():
            if session.conf.isModifiable(name):
                session.conf.set(name, value)
        path = ArtifactShelf(storage).path_of(ArtifactId(asked.script))
        found = script_program.run(session, path, asked.arguments, local_path(asked.data_root))
        return ScriptDescribed(queries=[_query(name, one) for name, one in found.items()])


def _query(name: str, writer: RecordedWriter) -> ScriptQuery:
    found = plan_states.look(writer.rows)
    function = None
    if writer.batch_function is not None:
        function = "foreachBatch"
    elif writer.row_function is not None:
        function = "foreach"
    return ScriptQuery(
        name=name,
        sources=list(found.sources),
        state=[kind.value for kind in found.state],
        output_mode=writer.mode,
        trigger=_plain(writer.triggered),
        sink=ScriptQuerySink(
            format=writer.sink_format.lower(),
            path=writer.settings.get("path"),
            options=writer.settings,
            partition_by=list(writer.partitioned_by),
            table=writer.table,
            function=function,
        ),
    )


def _plain(trigger: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value if isinstance(value, bool) else str(value) for name, value in trigger.items()
    }
