"""Withdraws the rows of rolled-back attempts from tables that the job does not write to any more.

The decisions are in `taskrunner/core/abandoned_tables.py`. Directories of `files` sinks need no
graph and no connection, and have a list of their own (`taskrunner/sinks/outputs.py`).
"""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from jobmanager.core.graph import graph_document
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.ids import AttemptNumber
from jobmanager.core.plan.job_plan import plan_of
from jobmanager.core.snapshots.layout import TABLES
from taskrunner import logs
from taskrunner.core import abandoned_tables
from taskrunner.core.abandoned_tables import NotedTable, TableName
from taskrunner.snapshots.layout import JobLayout
from taskrunner.snapshots.restore_source import RestoreSource
from taskrunner.snapshots.snapshot import AttemptContext
from taskrunner.spark.connectors.batch_sink import BatchSink
from taskrunner.spark.connectors.registry import WRITERS

log = logs.get("restore")


@dataclass(frozen=True, slots=True)
class TableWithdrawals:
    """The tables of one job, as an attempt finds them."""

    layout: JobLayout
    subject: AttemptContext
    open: Callable[[Sink], BatchSink]
    """Opens a sink of any graph of the job."""

    def before_the_attempt(self, origin: RestoreSource | None) -> None:
        """Withdraws what has to be, and notes the tables of this attempt. `origin` is the restore
        point, if it was opened. Raises an error if rows cannot be withdrawn from a table that
        this attempt is to write to.
        """
        found = self._noted()
        current = tables_of(self.subject.graph)
        noted = found
        if origin is not None and origin.job == self.subject.job:
            attempt = AttemptNumber(origin.manifest.attempt)
            noted = abandoned_tables.marked(
                noted, current, attempt, lambda one: _last_kept(one, origin)
            )
            self._write(noted, found)
        cleaned = [self._cleaned(one, must=one.name in current) for one in noted]
        attempt, document = self.subject.attempt, self.subject.document
        self._write(
            abandoned_tables.with_current(cleaned, current, attempt, document), before=noted
        )

    def _cleaned(self, table: NotedTable, *, must: bool) -> NotedTable:
        """The table without its mark, if its rows are withdrawn."""
        if table.withdraw_after is None:
            return table
        try:
            sink = graph_document.parse(table.graph).vertex(table.sink)
            assert isinstance(sink, Sink)
            self.open(sink).withdraw(table.withdraw_after)
        except Exception as error:
            if must:
                raise
            # The job was rolled back to continue as before: that does not depend on this table.
            log.warning(
                "rolled_back_rows_stay",
                sink=table.sink,
                output=table.output,
                after_batch=table.withdraw_after,
                why=str(error),
            )
            return table
        log.info("rolled_back_rows_withdrawn", sink=table.sink, output=table.output)
        return replace(table, withdraw_after=None)

    def _noted(self) -> list[NotedTable]:
        try:
            return abandoned_tables.from_document(json.loads(self.layout.work.read(TABLES)))
        except FileNotFoundError:
            return []

    def _write(self, noted: Sequence[NotedTable], before: Sequence[NotedTable]) -> None:
        if list(noted) != list(before):
            text = json.dumps(abandoned_tables.as_document(noted), indent=1)
            self.layout.work.write(TABLES, text)


def tables_of(graph: JobGraph) -> set[TableName]:
    """The outputs of a graph from which rows can be withdrawn."""
    sinks = (one for one in graph.vertices if isinstance(one, Sink))
    return {
        (one.id, output)
        for one in sinks
        if WRITERS[type(one.connector)].withdraws
        if (output := one.connector.exclusive_output(os.path.normpath)) is not None
    }


def _last_kept(table: NotedTable, origin: RestoreSource) -> int:
    """The last batch of the table that is part of the restore point; -1: there is none."""
    plan = plan_of(graph_document.parse(table.graph))
    regions = [one.id for one in plan.regions if table.sink in one.sinks]
    known = origin.manifest.regions.get(regions[0]) if regions else None
    return -1 if known is None or known.batch is None else known.batch
