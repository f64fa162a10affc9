"""Random crashes, replays and restores: each committed row is seen exactly once."""

import contextlib
import shutil
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from jobmanager.core.ids import AttemptNumber
from taskrunner.core.sink_segments import CompactionLimits
from taskrunner.sinks.directory import SinkDirectory
from taskrunner.sinks.output_files import LOCAL
from tests.unit.taskrunner.test_sink_directory import (
    CopiedFiles,
    Crash,
    a_sink,
    crash_after,
    rows,
    write,
)

NEVER = 1_000
STEPS = st.one_of(st.just(NEVER), st.integers(1, 9), st.integers(1, 60))

COMPACTION = st.builds(CompactionLimits, kept=st.integers(0, 6), at_once=st.integers(1, 3))


class SinkUnderFire(RuleBasedStateMachine):
    """A region's batches as Spark runs them, with a process that may die after any step."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.attempt = 1
        self.begun = -1
        self.committed = -1
        self.checkpoint = -1

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    @initialize(held=st.booleans(), compaction=COMPACTION, copies=st.booleans())
    def choose_visibility(self, held: bool, compaction: CompactionLimits, copies: bool) -> None:
        self.held = held
        self.copies = copies
        self.compaction = compaction

    @rule(batches=st.integers(2, 12))
    def run_many(self, batches: int) -> None:
        sink = self.sink(NEVER)
        for _ in range(batches):
            self.begun = self.committed = self.committed + 1
            write(sink, self.committed, parts_of(self.committed), held=self.held)
        self.check_settled()

    @rule(steps=STEPS)
    def run_batch(self, steps: int) -> None:
        batch = self.begun = self.committed + 1
        try:
            write(self.sink(steps), batch, parts_of(batch), held=self.held)
        except Crash:
            self.restart_from_attempt(NEVER)
        else:
            self.committed = batch
            self.check_settled()

    @rule(steps=STEPS)
    def publish_and_die_before_spark_commits(self, steps: int) -> None:
        self.begun = self.committed + 1
        with contextlib.suppress(Crash):
            write(self.sink(steps), self.begun, parts_of(self.begun), held=self.held)
        self.restart_from_attempt(NEVER)

    @rule(steps=STEPS)
    def complete_checkpoint(self, steps: int) -> None:
        self.checkpoint = self.committed
        if self.held:
            try:
                self.sink(steps).show_up_to(self.checkpoint)
            except Crash:
                self.restart_from_attempt(NEVER)
            self.check_settled()

    @rule(steps=STEPS)
    def restart_from_attempt(self, steps: int) -> None:
        self.recover(last_kept=max(self.begun, self.committed), steps=steps)

    @rule(steps=STEPS)
    def restart_from_checkpoint(self, steps: int) -> None:
        self.begun = self.committed = self.checkpoint
        self.recover(last_kept=self.checkpoint, steps=steps)
        self.check_settled()

    @rule(share=st.floats(0, 1), steps=STEPS)
    def restore_an_old_savepoint(self, share: float, steps: int) -> None:
        self.begun = self.committed = self.checkpoint = round(share * (self.committed + 1)) - 1
        self.recover(last_kept=self.checkpoint, steps=steps)
        self.check_settled()

    @rule(batches=st.integers(1, 5), steps=STEPS)
    def roll_back_another_attempt(self, batches: int, steps: int) -> None:
        """A later attempt writes, and all that it wrote is withdrawn."""
        before = self.attempt
        self.restart_from_attempt(NEVER)
        self.begun = self.committed
        kept = self.committed
        self.recover(last_kept=kept, steps=NEVER)
        later = self.attempt
        for _ in range(batches):
            self.begun = self.committed = self.committed + 1
            write(self.sink(NEVER), self.committed, parts_of(self.committed), held=self.held)
        self.begun = self.committed = kept
        try:
            self.sink(steps).withdraw_after(AttemptNumber(later - 1))
        except Crash:
            self.sink(NEVER).withdraw_after(AttemptNumber(later - 1))
        assert later > before
        self.check_settled()

    @invariant()
    def every_committed_batch_has_a_record_and_no_other_has(self) -> None:
        sink = self.sink(NEVER)
        assert all(sink.state_of(batch) is not None for batch in range(self.committed + 1))
        assert all(sink.state_of(self.begun + n) is None for n in range(1, 4))

    @invariant()
    def no_row_is_seen_twice_and_none_that_was_never_written(self) -> None:
        for row, count in Counter(rows(self.root)).items():
            assert count == 1
            assert int(row.split(":")[0]) <= self.begun

    @invariant()
    def every_row_of_a_committed_batch_is_seen(self) -> None:
        last = self.checkpoint if self.held else self.committed
        assert set(_expected(last)) <= set(rows(self.root))

    def check_settled(self) -> None:
        last = self.checkpoint if self.held else self.committed
        assert rows(self.root) == _expected(last)

    def recover(self, last_kept: int, steps: int) -> None:
        """The next attempt recovers; if it dies of it, the one after that does."""
        self.attempt += 1
        try:
            self.sink(steps).recover(last_kept, self.checkpoint)
        except Crash:
            self.recover(last_kept, NEVER)

    def sink(self, steps: int) -> SinkDirectory:
        crash = crash_after(steps)
        files = CopiedFiles(crash) if self.copies else LOCAL
        return a_sink(self.root, self.attempt, crash, self.compaction, files)


def parts_of(batch: int) -> int:
    return 1 + batch // 3 % 3


def _expected(last_batch: int) -> list[str]:
    return sorted(
        f"{batch}:{part}" for batch in range(last_batch + 1) for part in range(parts_of(batch))
    )


SinkUnderFire.TestCase.settings = settings(
    max_examples=60, stateful_step_count=20, deadline=None, database=None
)
TestSinkUnderFire = SinkUnderFire.TestCase
