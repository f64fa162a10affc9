"""Random crashes, replays, restores and zombies: each row is published exactly once."""

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from jobmanager.core.graph.connectors.kafka import Rewind
from jobmanager.core.ids import AttemptNumber, VertexId
from taskrunner.core.staged_rows import BatchCount, BatchIncomplete, OutputFileChanged, StagedFile
from taskrunner.core.transactional_output import MarkerLost, RewindRefused
from taskrunner.sinks.decided_batches import DecidedBatches
from taskrunner.sinks.staged_transactions import StagedTransactions
from taskrunner.snapshots.fence import Superseded
from tests.unit.taskrunner.memory_topic import Fenced, MemoryTopic
from tests.unit.taskrunner.test_sink_directory import Crash, crash_after

NEVER = 1_000
STEPS = st.one_of(st.just(NEVER), st.integers(1, 9), st.integers(1, 30))

REFUSALS = (Superseded, Fenced, OutputFileChanged, Crash)
"""How a process that was replaced may fail."""


class Epoch:
    """The job's epoch: only the newest attempt holds it."""

    def __init__(self) -> None:
        self.attempt = 1

    def guard_of(self, attempt: int) -> Callable[[], contextlib.AbstractContextManager[None]]:
        @contextmanager
        def holding() -> Iterator[None]:
            if attempt < self.attempt:
                raise Superseded(f"attempt {attempt} was superseded")
            yield

        return holding


class World:
    """A topic, and the directory and the epoch of a job with a sink that writes to it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.topic = MemoryTopic()
        self.epoch = Epoch()

    def sink(
        self, steps: int = NEVER, rewind: Rewind = Rewind.REFUSE, attempt: int | None = None
    ) -> StagedTransactions:
        """The sink as an attempt has it; the newest attempt, unless told."""
        number = self.epoch.attempt if attempt is None else attempt
        after_step = crash_after(steps)
        return StagedTransactions(
            self.root / "sink",
            VertexId("out"),
            AttemptNumber(number),
            self.topic.open(after_step),
            self.epoch.guard_of(number),
            rewind,
            after_step,
        )


def write(sink: StagedTransactions, batch: int, rows: list[str], *, held: bool = False) -> None:
    """What the sink does with a batch that Spark gives to it."""
    if not sink.is_decided(batch):
        staged = sink.stage(batch)
        staged.mkdir()
        text = "".join(f"{row}\n" for row in rows)
        (staged / "part-00000.parquet").write_text(text)
        file = StagedFile(PurePosixPath("part-00000.parquet"), len(text), len(rows))
        sink.decide(batch, staged, BatchCount(len(rows)), [file])
    if not held:
        sink.show_up_to(batch)


class TransactionsUnderFire(RuleBasedStateMachine):
    """A region's batches as Spark runs them, with a process that may die after any step."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(Path(tempfile.mkdtemp()))
        self.begun = self.committed = self.checkpoint = -1
        self.generation = 0
        """Raised whenever a batch that is not kept gets other rows."""
        self.rows: dict[int, list[str]] = {}
        self.live: StagedTransactions | None = None
        self.zombies: list[StagedTransactions] = []

    def teardown(self) -> None:
        shutil.rmtree(self.world.root)

    @initialize(held=st.booleans())
    def choose_visibility(self, held: bool) -> None:
        self.held = held
        self.live = self.world.sink()
        self.live.recover(-1, None)

    @rule(steps=STEPS, rows=st.integers(0, 3))
    def run_batch(self, steps: int, rows: int) -> None:
        batch = self.begun = self.committed + 1
        self.rows.setdefault(batch, [f"{batch}.{n}.{self.generation}" for n in range(rows)])
        try:
            write(self.dying(steps), batch, self.rows[batch], held=self.held)
        except Crash:
            self.restart_from_attempt(NEVER)
        else:
            self.committed = batch

    @rule(steps=STEPS)
    def publish_and_die_before_spark_commits(self, steps: int) -> None:
        batch = self.begun = self.committed + 1
        self.rows.setdefault(batch, [f"{batch}.0.{self.generation}"])
        with contextlib.suppress(Crash):
            write(self.dying(steps), batch, self.rows[batch], held=self.held)
        self.restart_from_attempt(NEVER)

    @rule(steps=STEPS)
    def complete_checkpoint(self, steps: int) -> None:
        self.checkpoint = self.committed
        if self.held:
            try:
                self.dying(steps).show_up_to(self.checkpoint)
            except Crash:
                self.restart_from_attempt(NEVER)

    @rule(steps=STEPS)
    def restart_from_attempt(self, steps: int) -> None:
        self.recover(max(self.begun, self.committed), steps)

    @rule(steps=STEPS)
    def restart_from_checkpoint(self, steps: int) -> None:
        """The directories of all attempts are lost. Without `held` that is a rewind, refused."""
        if not self.held and self.checkpoint < max(self.begun, self.committed):
            self.world.epoch.attempt += 1
            if (self.world.topic.marker or 0) > self.checkpoint + 1:
                with pytest.raises(RewindRefused):
                    self.world.sink().recover(self.checkpoint, self.checkpoint)
            return self.restart_from_attempt(NEVER)
        self.begun = self.committed = self.checkpoint
        self.generation += 1
        self.rows = {b: rows for b, rows in self.rows.items() if b <= self.checkpoint}
        return self.recover(self.checkpoint, steps)

    @rule()
    def zombies_try_to_publish(self) -> None:
        before = list(self.world.topic.rows)
        for zombie in self.zombies:
            with contextlib.suppress(*REFUSALS):
                zombie.show_up_to(self.begun)
            with contextlib.suppress(*REFUSALS):
                write(zombie, self.committed + 1, ["zombie"])
        assert self.world.topic.rows == before
        self.restart_from_attempt(NEVER)

    @invariant()
    def each_row_is_seen_once_in_order_and_no_other(self) -> None:
        visible = self.checkpoint if self.held else self.begun
        expected = [row for batch in sorted(self.rows) for row in self.rows[batch]]
        seen = self.world.topic.rows
        assert seen == expected[: len(seen)]
        assert all(int(row.split(".")[0]) <= visible for row in seen)

    @invariant()
    def every_row_that_should_be_visible_is(self) -> None:
        visible = self.checkpoint if self.held else self.committed
        expected = [row for batch in range(visible + 1) for row in self.rows[batch]]
        assert len(self.world.topic.rows) >= len(expected)

    def dying(self, steps: int) -> StagedTransactions:
        """The live attempt, that dies after so many steps."""
        assert self.live is not None
        if steps == NEVER:
            return self.live
        self.live = self.world.sink(steps)
        return self.live

    def recover(self, last_kept: int, steps: int) -> None:
        """The next attempt recovers; if it dies of it, the one after that does."""
        if self.live is not None:
            self.zombies.append(self.live)
        self.world.epoch.attempt += 1
        self.live = self.world.sink(steps)
        try:
            self.live.recover(last_kept, self.checkpoint if self.held else last_kept)
        except Crash:
            self.recover(last_kept, NEVER)
            return
        if steps != NEVER:
            self.recover(last_kept, NEVER)


TransactionsUnderFire.TestCase.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, database=None
)
TestTransactionsUnderFire = TransactionsUnderFire.TestCase


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_restore_behind_published_batches_is_refused(world: World) -> None:
    sink = world.sink()
    sink.recover(-1, None)
    for batch in range(3):
        write(sink, batch, [f"row {batch}"])

    world.epoch.attempt = 2
    with pytest.raises(RewindRefused, match="ends with batch 0, but batches up to 2 are published"):
        world.sink().recover(last_kept=0, last_visible=0)
    assert world.topic.rows == ["row 0", "row 1", "row 2"]


@pytest.mark.parametrize("steps", range(1, 9))
def test_a_sink_that_may_repeat_rows_goes_back_and_goes_on(world: World, steps: int) -> None:
    sink = world.sink()
    sink.recover(-1, None)
    for batch in range(3):
        write(sink, batch, [f"row {batch}"])

    world.epoch.attempt = 2
    with contextlib.suppress(Crash):
        world.sink(steps, Rewind.REPEAT).recover(last_kept=0, last_visible=0)
    world.epoch.attempt = 3
    again = world.sink(rewind=Rewind.REPEAT)
    again.recover(last_kept=0, last_visible=0)
    write(again, 1, ["other row 1"])

    assert world.topic.rows == ["row 0", "row 1", "row 2", "other row 1"]
    assert world.topic.marker == 2


def test_a_marker_that_expired_is_a_failure_of_its_own(world: World) -> None:
    sink = world.sink()
    sink.recover(-1, None)
    write(sink, 0, ["row"])
    world.topic.marker = None

    world.epoch.attempt = 2
    with pytest.raises(MarkerLost, match=r"1 batches were published.* is missing"):
        world.sink().recover(last_kept=1, last_visible=1)


def test_staged_rows_that_are_gone_are_named_and_nothing_is_published(world: World) -> None:
    sink = world.sink()
    sink.recover(-1, None)
    write(sink, 0, ["row"], held=True)
    for file in (world.root / "sink" / "staging").rglob("*.parquet"):
        file.unlink()

    assert "is gone" in DecidedBatches(world.root / "sink", VertexId("out")).lost()[0]
    with pytest.raises(OutputFileChanged):
        sink.show_up_to(0)
    assert world.topic.rows == []


def test_an_older_attempt_whose_transaction_fails_says_that_it_was_replaced(world: World) -> None:
    older = world.sink()
    older.recover(-1, None)
    write(older, 0, ["row"], held=True)

    world.epoch.attempt = 2
    world.sink().recover(last_kept=0, last_visible=None)
    with pytest.raises(Superseded):
        older.show_up_to(0)
    assert world.topic.rows == []


def test_rows_that_were_published_are_not_missed(world: World) -> None:
    """A process died between the note of a publication and the end of the batch's record."""
    sink = world.sink()
    sink.recover(-1, None)
    write(sink, 0, ["row"], held=True)
    record = (world.root / "sink" / "0.json").read_text()
    sink.show_up_to(0)
    (world.root / "sink" / "0.json").write_text(record)

    assert DecidedBatches(world.root / "sink", VertexId("out")).lost() == {}


def test_a_batch_whose_files_lack_rows_is_not_decided(world: World) -> None:
    sink = world.sink()
    sink.recover(-1, None)
    staged = sink.stage(0)
    with pytest.raises(BatchIncomplete, match="Spark counted 2 rows, but no file"):
        sink.decide(0, staged, BatchCount(2), [])
    assert not sink.is_decided(0)


def test_nothing_is_left_over_when_all_is_published(world: World) -> None:
    sink = world.sink()
    sink.recover(-1, None)
    for batch in range(3):
        write(sink, batch, ["row"] * batch, held=True)
    sink.show_up_to(2**63)

    left = sorted(one.name for one in (world.root / "sink").iterdir())
    assert left == ["published", "staging"]
    assert list((world.root / "sink" / "staging").iterdir()) == []
    assert world.topic.marker == 3
