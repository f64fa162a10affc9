"""A rolled-back upgrade leaves no rows in a table that only the upgrade named."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest

from jobmanager.core.graph import graph_document
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.ids import AttemptNumber, JobId
from jobmanager.core.snapshots.layout import TABLES
from taskrunner.core.abandoned_tables import from_document
from taskrunner.snapshots.fence import Fence
from taskrunner.snapshots.layout import JobLayout
from taskrunner.snapshots.restore_source import RestoreSource
from taskrunner.snapshots.snapshot import AttemptContext
from taskrunner.spark.connectors.batch_sink import BatchSink
from taskrunner.spark.connectors.registry import WRITERS
from taskrunner.spark.connectors.writing import WriteContext
from taskrunner.spark.state.table_withdrawals import TableWithdrawals
from tests.support.builders import a_document_with
from tests.unit.taskrunner.builders import JOB, spark_directory
from tests.unit.taskrunner.tables import DeltaUnderTest, an_output, expected, write
from tests.unit.taskrunner.test_rescale import a_savepoint

FILES = a_document_with("out")


class OutOfReach(Exception):
    """The database of a table does not answer."""


@dataclass
class Upgrade:
    """A job with a savepoint at batch 2, and a Delta table that only its next graph names."""

    layout: JobLayout
    table: DeltaUnderTest
    savepoint: RestoreSource
    is_reachable: bool = True
    opened: list[str] = field(default_factory=list)

    @property
    def delta(self) -> dict[str, Any]:
        path = str(self.table.path)
        return a_document_with("out", connector="delta", path=path, format=None)

    def start(
        self, attempt: int, graph: dict[str, Any], origin: RestoreSource | None = None
    ) -> None:
        """What an attempt does with tables before its queries start."""
        number = AttemptNumber(attempt)
        fence = Fence(self.layout, number)
        fence.raise_epoch()
        parsed = graph_document.parse(graph)
        context = WriteContext(
            spark=cast(Any, None),  # no rows are written here
            graph=parsed,
            job=JOB,
            attempt=number,
            parallelism=2,
            resolve=Path,
            layout=self.layout,
            guard=fence.holding,
            guard_of=cast(Any, None),
            script_sink=cast(Any, None),
        )

        def opened(sink: Sink) -> BatchSink:
            self.opened.append(sink.connector.name)
            if not self.is_reachable:
                raise OutOfReach
            return WRITERS[type(sink.connector)].open(sink, sink.connector, context)

        subject = AttemptContext(JOB, number, parsed, 2, "4.3.0", graph)
        TableWithdrawals(self.layout, subject, opened).before_the_attempt(origin)

    def write(self, attempt: int, *batches: int) -> None:
        for batch in batches:
            write(self.table, an_output(self.table.commits(), attempt), batch)


@pytest.fixture
def upgrade(layout: JobLayout, tmp_path: Path) -> Upgrade:
    spark = spark_directory(layout, 1)
    for batch in range(3):
        spark.commit(batch)
    found = Upgrade(layout, DeltaUnderTest(tmp_path), a_savepoint(layout, tmp_path / "savepoint"))
    found.start(1, FILES)
    return found


def ids_of(*batches: int) -> list[int]:
    return [one for one in expected(max(batches)) if one // 10 in batches]


def test_rows_of_a_rolled_back_upgrade_are_withdrawn(upgrade: Upgrade) -> None:
    upgrade.start(2, upgrade.delta, upgrade.savepoint)
    upgrade.write(2, 3, 4)

    upgrade.start(3, FILES, upgrade.savepoint)

    assert upgrade.table.ids() == []
    # and the upgrade that succeeds later has its own rows only
    upgrade.start(4, upgrade.delta)
    upgrade.write(4, 7)
    upgrade.start(5, upgrade.delta)
    assert upgrade.table.ids() == ids_of(7)
    assert upgrade.opened == ["delta"]


def test_rows_that_an_earlier_graph_wrote_stay(upgrade: Upgrade) -> None:
    upgrade.start(1, upgrade.delta)
    upgrade.write(1, 0, 1, 2)
    upgrade.start(2, FILES, upgrade.savepoint)  # to a directory, and rolled back

    upgrade.start(3, upgrade.delta, upgrade.savepoint)

    assert upgrade.table.ids() == expected(2)


def test_a_table_that_earlier_and_rolled_back_attempts_wrote_to_keeps_the_earlier_rows(
    upgrade: Upgrade,
) -> None:
    upgrade.start(1, upgrade.delta)
    upgrade.write(1, 0, 1)
    upgrade.start(1, FILES)
    upgrade.start(2, upgrade.delta, upgrade.savepoint)
    upgrade.write(2, 3)

    upgrade.start(3, FILES, upgrade.savepoint)

    assert upgrade.table.ids() == expected(1)


def test_a_roll_back_does_not_wait_for_a_table_out_of_reach_but_the_next_upgrade_does(
    upgrade: Upgrade,
) -> None:
    upgrade.start(2, upgrade.delta, upgrade.savepoint)
    upgrade.write(2, 3, 4)
    upgrade.is_reachable = False
    upgrade.start(3, FILES, upgrade.savepoint)
    assert upgrade.table.ids() == ids_of(3, 4)

    with pytest.raises(OutOfReach):
        upgrade.start(4, upgrade.delta)
    upgrade.is_reachable = True
    upgrade.start(5, upgrade.delta)

    assert upgrade.table.ids() == []


def test_a_restart_or_a_fork_withdraws_nothing(upgrade: Upgrade) -> None:
    upgrade.start(2, upgrade.delta, upgrade.savepoint)
    upgrade.write(2, 3)
    manifest = replace(upgrade.savepoint.manifest, job=JobId(UUID(int=99)))

    upgrade.start(3, FILES)
    upgrade.start(4, FILES, replace(upgrade.savepoint, manifest=manifest))

    assert upgrade.table.ids() == ids_of(3)


def test_a_death_after_the_mark_is_made_up_for(
    upgrade: Upgrade, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgrade.start(2, upgrade.delta, upgrade.savepoint)
    upgrade.write(2, 3)
    die_in(monkeypatch, TableWithdrawals, "_cleaned")
    with pytest.raises(SystemExit):
        upgrade.start(3, FILES, upgrade.savepoint)
    monkeypatch.undo()
    assert [one.withdraw_after for one in noted(upgrade)] == [2]

    upgrade.start(4, FILES)

    assert upgrade.table.ids() == []
    assert [one.withdraw_after for one in noted(upgrade)] == [None]


def noted(upgrade: Upgrade) -> list[Any]:
    return list(from_document(json.loads(upgrade.layout.work.read(TABLES))))


def die_in(monkeypatch: pytest.MonkeyPatch, owner: type, method: str) -> None:
    def dies(*_: object, **__: object) -> Callable[[], None]:
        raise SystemExit

    monkeypatch.setattr(owner, method, dies)
