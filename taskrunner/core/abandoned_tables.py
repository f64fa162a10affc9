"""Decides from which tables rows have to be withdrawn after a change of a job was rolled back.

An upgrade may give a sink another table. If the upgrade is rolled back, the job continues from the
savepoint before it, with the old graph, which does not name that table. So each attempt notes the
tables that it may write to, with the graph that names them, and a roll-back marks those that only
attempts after its savepoint wrote to:

    noted ──rolled back──▶ marked with the last batch that stays ──rows withdrawn──▶ noted

A mark stays until the rows are gone, because the database may be out of reach meanwhile. An attempt
that is to write to a marked table starts only after the rows are gone: else its own batches would
come after batches of an attempt that, for everybody else, has never run.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from jobmanager.core.ids import AttemptNumber, VertexId

TableName = tuple[VertexId, str]
"""A sink, and the output that no other job may write to."""


@dataclass(frozen=True, slots=True)
class NotedTable:
    """A table that the job has written to, or was about to."""

    sink: VertexId
    output: str
    attempt: AttemptNumber
    """The last attempt that may have written to it."""
    graph: Mapping[str, Any]
    """The graph of that attempt, as it was submitted: secrets are references."""
    withdraw_after: int | None = None
    """The last batch that stays; None: nothing has to be withdrawn."""

    @property
    def name(self) -> TableName:
        return self.sink, self.output


def marked(
    noted: Sequence[NotedTable],
    current: Collection[TableName],
    last_attempt: AttemptNumber,
    last_kept: Callable[[NotedTable], int],
) -> list[NotedTable]:
    """Marks the tables that attempts after `last_attempt` wrote to, and that are not `current`: a
    restore puts those right. The job continues from the state of `last_attempt`.
    """
    return [
        replace(one, withdraw_after=_older(one.withdraw_after, last_kept(one)))
        if one.attempt > last_attempt and one.name not in current
        else one
        for one in noted
    ]


def with_current(
    noted: Sequence[NotedTable],
    current: Collection[TableName],
    attempt: AttemptNumber,
    graph: Mapping[str, Any],
) -> list[NotedTable]:
    """Notes the tables that an attempt is about to write to."""
    others = [one for one in noted if one.name not in current]
    new = [NotedTable(sink, output, attempt, graph) for sink, output in sorted(current)]
    return [*others, *new]


def as_document(noted: Sequence[NotedTable]) -> list[dict[str, Any]]:
    return [asdict(one) for one in noted]


def from_document(document: Sequence[Mapping[str, Any]]) -> list[NotedTable]:
    return [
        NotedTable(
            VertexId(one["sink"]),
            one["output"],
            AttemptNumber(one["attempt"]),
            one["graph"],
            one.get("withdraw_after"),
        )
        for one in document
    ]


def _older(marked_before: int | None, batch: int) -> int:
    return batch if marked_before is None else min(marked_before, batch)
