"""Small files of held batches are joined before they are shown: real files, crashes anywhere."""

import contextlib
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from jobmanager.core.graph.file_format import FileFormat
from jobmanager.core.ids import AttemptNumber
from taskrunner.core.sink_records import RecordState
from taskrunner.core.sink_segments import CompactionLimits
from taskrunner.core.staged_rows import BatchCount, OutputFileChanged
from taskrunner.sinks.directory import SinkDirectory
from taskrunner.sinks.held_files import HeldFiles
from taskrunner.sinks.joined_text import TextJoiner
from taskrunner.sinks.joiner import BreakOff, JoinBrokenOff, JoinRefused
from taskrunner.sinks.output_files import LOCAL, LocalFiles
from taskrunner.sinks.staged_files import staged_files
from taskrunner.snapshots.fence import Superseded
from tests.unit.taskrunner.builders import JOB, SINK
from tests.unit.taskrunner.test_sink_directory import CopiedFiles, Crash, a_sink, crash_after

TARGET = 60
"""Bytes: a part has from 6 to 40, or 66."""
NO_OPTIONS: Mapping[str, str] = MappingProxyType({})
NEVER = 1_000


def parts_of(batch: int) -> dict[str, list[str]]:
    """The rows of each file of a batch; of every seventh batch there is none."""
    if batch % 7 == 5:
        return {}
    lines = [f"{batch:03d}:{row}" for row in range(11 if batch % 5 == 3 else 1 + batch % 4)]
    return {
        "day=1/part-00000-x-c000.json": lines,
        f"day={batch % 2}/part-00001-x-c000.json": [f"{batch:03d}:x"],
    }


def expected(*batches: int) -> list[str]:
    return sorted(row for batch in batches for part in parts_of(batch).values() for row in part)


def write(sink: SinkDirectory, batch: int) -> None:
    if sink.state_of(batch) is not None:
        sink.finish(batch)
        return
    staged = Path(sink.stage(batch))
    for name, lines in parts_of(batch).items():
        (staged / name).parent.mkdir(parents=True, exist_ok=True)
        (staged / name).write_text("".join(f"{line}\n" for line in lines))
    rows = sum(map(len, parts_of(batch).values()))
    sink.commit(batch, staged, BatchCount(rows), staged_files(staged, FileFormat.JSON), held=True)


def held_files(
    sink: SinkDirectory, files: LocalFiles = LOCAL, options: Mapping[str, str] = NO_OPTIONS
) -> HeldFiles:
    return HeldFiles(sink, TextJoiner(files, FileFormat.JSON, options, ()), TARGET)


def show(sink: SinkDirectory, up_to: int, *restore_points: int, files: LocalFiles = LOCAL) -> None:
    held = held_files(sink, files)
    for point in restore_points:
        held.note_restore_point(point)
    held.join_up_to(up_to, BreakOff())
    sink.show_up_to(up_to)


def seen(root: Path) -> dict[str, list[str]]:
    """The rows of each file that a reader finds."""
    return {
        str(path.relative_to(root / "sink")): path.read_text().splitlines()
        for path in sorted((root / "sink").rglob("*"))
        if path.is_file()
    }


def rows(root: Path) -> list[str]:
    return sorted(row for lines in seen(root).values() for row in lines)


def private_files(root: Path, pattern: str) -> list[str]:
    return sorted(one.name for one in root.glob(f".sink.headgate/*/*/{pattern}"))


def test_the_batches_of_a_checkpoint_are_few_files(tmp_path: Path) -> None:
    sink = a_sink(tmp_path)
    for batch in (0, 1, 2, 4, 6):
        write(sink, batch)

    show(sink, 6)

    assert rows(tmp_path) == expected(0, 1, 2, 4, 6)
    prefix = f"{JOB.hex}-{SINK}-0000000006"
    assert list(seen(tmp_path)) == [f"day=0/{prefix}-00002.json", f"day=1/{prefix}-00003.json"]
    assert private_files(tmp_path, "*.json") == ["6.json"], "one record for all"
    assert private_files(tmp_path, "staging/*") == []


def test_batches_on_both_sides_of_a_restore_point_are_not_joined(tmp_path: Path) -> None:
    sink = a_sink(tmp_path)
    for batch in range(5):
        write(sink, batch)

    show(sink, 4, 1)
    assert rows(tmp_path) == expected(*range(5))
    a_sink(tmp_path, attempt=2).recover(last_kept=1, last_visible=1)

    assert rows(tmp_path) == expected(0, 1)


def test_batches_of_an_earlier_attempt_are_shown_as_they_are(tmp_path: Path) -> None:
    """Who wrote them may have been of a version that did not note savepoints."""
    write(a_sink(tmp_path), 0)
    write(a_sink(tmp_path), 1)
    sink = a_sink(tmp_path, attempt=2)
    sink.recover(last_kept=1, last_visible=None)
    for batch in (2, 4):
        write(sink, batch)

    show(sink, 4)

    batches = {path.split("-")[2] for path in seen(tmp_path)}
    assert batches == {"0000000000", "0000000001", "0000000004"}
    assert rows(tmp_path) == expected(0, 1, 2, 4)


def test_batches_after_the_checkpoint_stay_held_and_are_joined_with_the_next(
    tmp_path: Path,
) -> None:
    sink = a_sink(tmp_path)
    for batch in range(5):
        write(sink, batch)

    show(sink, 2)
    assert rows(tmp_path) == expected(0, 1, 2)
    assert sink.state_of(4) is RecordState.HELD
    show(sink, 4, 2)

    assert rows(tmp_path) == expected(*range(5))


def test_what_was_joined_and_could_not_be_shown_is_joined_again(tmp_path: Path) -> None:
    sink = a_sink(tmp_path)
    held = held_files(sink)
    for batch in (0, 2):
        write(sink, batch)
    held.note_restore_point(2)
    held.join_up_to(2, BreakOff())  # and then the disk is full
    for batch in (4, 6):
        write(sink, batch)
    held.note_restore_point(6)
    held.join_up_to(6, BreakOff())
    sink.show_up_to(6)

    assert rows(tmp_path) == expected(0, 2, 4, 6)
    assert {path.split("-")[2] for path in seen(tmp_path)} == {"0000000002", "0000000006"}


class LosesFiles(LocalFiles):
    """A disk that is full when files are joined."""

    def concatenate(self, parts: object, target: object) -> None:
        raise OSError(28, "No space left on device")


def test_a_join_that_fails_leaves_the_files_as_they_are(tmp_path: Path) -> None:
    sink = a_sink(tmp_path)
    for batch in range(3):
        write(sink, batch)

    with pytest.raises(OSError, match="No space left"):
        held_files(sink, LosesFiles()).join_up_to(2, BreakOff())
    assert len(private_files(tmp_path, "staging/*")) == 3
    sink.show_up_to(2)

    assert rows(tmp_path) == expected(0, 1, 2)
    assert len(seen(tmp_path)) == 6


def test_a_file_that_is_not_lines_is_not_joined(tmp_path: Path) -> None:
    sink = a_sink(tmp_path)
    write(sink, 0)
    write(sink, 1)

    with pytest.raises(JoinRefused, match="does not end with the end of a line"):
        held_files(sink, options={"lineSep": "|"}).join_up_to(1, BreakOff())


def test_nothing_is_joined_when_the_attempt_is_about_to_end(tmp_path: Path) -> None:
    sink = a_sink(tmp_path)
    write(sink, 0)
    write(sink, 1)
    break_off = BreakOff()
    break_off.ask()

    with pytest.raises(JoinBrokenOff):
        held_files(sink).join_up_to(1, break_off)

    assert sink.state_of(0) is sink.state_of(1) is RecordState.HELD


def test_what_is_under_way_is_ended_when_the_attempt_is_about_to_end() -> None:
    break_off, ended = BreakOff(), list[str]()
    with break_off.ending(lambda: ended.append("an earlier join")):
        pass
    with break_off.ending(lambda: ended.append("this join")):
        break_off.ask()
    assert ended == ["this join"]
    with pytest.raises(JoinBrokenOff), break_off.ending(lambda: None):
        pass


def test_a_lost_file_is_named_as_without_joins(tmp_path: Path) -> None:
    sink = a_sink(tmp_path)
    write(sink, 0)
    write(sink, 1)
    lost, *_ = sorted(tmp_path.glob(".sink.headgate/*/*/staging/*-0-*/*/*"))
    lost.unlink()

    with pytest.raises(OutputFileChanged, match=r"batch 0: the record names .* is not there"):
        held_files(sink).join_up_to(1, BreakOff())
    with pytest.raises(OutputFileChanged, match=r"batch 0: the record names .* is not there"):
        sink.show_up_to(1)

    assert rows(tmp_path) == []


def test_an_attempt_that_was_replaced_while_it_joined_changes_nothing(tmp_path: Path) -> None:
    replaced = [False]

    @contextlib.contextmanager
    def guard() -> Iterator[None]:
        if replaced[0]:
            raise Superseded
        yield

    def replace(step: str) -> None:
        replaced[0] = step == "joined" or replaced[0]

    sink = SinkDirectory(tmp_path / "sink", JOB, SINK, AttemptNumber(1), guard, replace)
    write(sink, 0)
    write(sink, 1)
    records = private_files(tmp_path, "*.json")

    with pytest.raises(Superseded):
        held_files(sink).join_up_to(1, BreakOff())

    assert private_files(tmp_path, "*.json") == records
    a_sink(tmp_path, attempt=2).recover(last_kept=1, last_visible=1)
    assert rows(tmp_path) == expected(0, 1)
    assert private_files(tmp_path, "staging/*") == []


def test_a_version_without_joins_takes_a_join_that_is_not_done_for_damage(tmp_path: Path) -> None:
    """It would publish rows twice, or not at all. It reads records with these keys only."""
    sink = a_sink(tmp_path, after_step=stop_at("join decided"))
    write(sink, 0)
    write(sink, 1)
    with pytest.raises(Crash):
        held_files(sink).join_up_to(1, BreakOff())

    [record] = tmp_path.glob(".sink.headgate/*/*/1.held.json")
    assert '"join"' in record.read_text()
    a_sink(tmp_path, 2).recover(last_kept=1, last_visible=None)
    assert '"join"' not in record.read_text()


def stop_at(wanted: str) -> Callable[[str], None]:
    def step(name: str) -> None:
        if name == wanted:
            raise Crash(name)

    return step


@pytest.mark.parametrize(("last_kept", "copies"), [(8, True), (8, False), (3, True), (-1, False)])
@pytest.mark.parametrize("steps", range(1, 48))
def test_wherever_it_crashes_each_row_is_seen_once_in_the_end(
    tmp_path: Path, steps: int, last_kept: int, copies: bool
) -> None:
    def files(crash: Callable[[str], None] = lambda step: None) -> LocalFiles:
        return CopiedFiles(crash) if copies else LOCAL

    for batch in range(9):
        write(a_sink(tmp_path), batch)
    # Given a crash while batches are joined and shown, with a savepoint at batch 3
    crash = crash_after(steps)
    with suppress(Crash):
        sink = a_sink(tmp_path, after_step=crash, files=files(crash))
        show(sink, 8, 3, files=files(crash))
    assert max(Counter(rows(tmp_path)).values(), default=1) == 1
    # When the next attempt goes on, or goes back, and dies of it too
    crash = crash_after(steps // 2)
    with suppress(Crash):
        sink = a_sink(tmp_path, 2, crash, files=files(crash))
        sink.recover(last_kept, last_visible=last_kept)
    sink = a_sink(tmp_path, 3, files=files())
    sink.recover(last_kept, last_visible=last_kept)
    # Then every row is there once, and nothing else
    assert rows(tmp_path) == expected(*range(last_kept + 1))
    for batch in range(last_kept + 1, 9):
        write(sink, batch)
    show(sink, 8, files=files())
    assert rows(tmp_path) == expected(*range(9))
    assert private_files(tmp_path, "staging/*") == []
    assert not [one for one in private_files(tmp_path, "*.json") if one.count(".") > 1]


COMPACTION = st.builds(CompactionLimits, kept=st.integers(0, 6), at_once=st.integers(1, 3))
STEPS = st.one_of(st.just(NEVER), st.just(NEVER), st.integers(1, 12), st.integers(1, 60))


class HeldFilesUnderFire(RuleBasedStateMachine):
    """Batches, savepoints, checkpoints and restores, with a process that may die after any step."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.attempt = 1
        self.committed = -1
        self.checkpoint = -1
        """The last one that is complete, and shows its output."""
        self.points = {-1}
        """Where the job can be restored to."""
        self.known: set[int] = set()
        """What this attempt has noted of it."""

    def teardown(self) -> None:
        shutil.rmtree(self.root)

    @initialize(compaction=COMPACTION, copies=st.booleans())
    def choose(self, compaction: CompactionLimits, copies: bool) -> None:
        self.compaction = compaction
        self.copies = copies

    @rule(batches=st.integers(1, 9), steps=STEPS)
    def run_batches(self, batches: int, steps: int) -> None:
        try:
            sink = self.sink(steps)
            for _ in range(batches):
                write(sink, self.committed + 1)
                self.committed += 1
        except Crash:
            self.restart_from_attempt(NEVER)

    @rule()
    def take_a_savepoint_or_a_checkpoint_of_which_nothing_is_heard(self) -> None:
        self.known.add(self.committed)
        self.points.add(self.committed)

    @rule(later=st.integers(0, 4), steps=STEPS)
    def complete_a_checkpoint(self, later: int, steps: int) -> None:
        self.take_a_savepoint_or_a_checkpoint_of_which_nothing_is_heard()
        checkpoint = self.committed
        if later:
            self.run_batches(later, NEVER)
        self.checkpoint = checkpoint
        sink = self.sink(steps)
        files = CopiedFiles() if self.copies else LOCAL
        try:
            show(sink, checkpoint, *self.known, files=files)
        except Crash:
            self.restart_from_attempt(NEVER)
        assert rows(self.root) == expected(*range(self.checkpoint + 1))

    @rule(
        before=st.integers(1, 6),
        after=st.integers(1, 6),
        dies=st.booleans(),
        joining=STEPS,
        restoring=STEPS,
    )
    def go_back_to_a_savepoint_between_batches_that_are_shown_together(
        self, before: int, after: int, dies: bool, joining: int, restoring: int
    ) -> None:
        self.run_batches(before, NEVER)
        self.take_a_savepoint_or_a_checkpoint_of_which_nothing_is_heard()
        savepoint = self.committed
        if dies:
            self.restart_from_attempt(NEVER)
        self.run_batches(after, NEVER)
        self.complete_a_checkpoint(0, joining)
        self.committed = self.checkpoint = savepoint
        self.points = {one for one in self.points if one <= savepoint}
        self.recover(savepoint, restoring)
        assert rows(self.root) == expected(*range(savepoint + 1))

    @rule(steps=STEPS)
    def join_and_show_nothing(self, steps: int) -> None:
        held = held_files(self.sink(steps), CopiedFiles() if self.copies else LOCAL)
        for point in self.known:
            held.note_restore_point(point)
        try:
            held.join_up_to(self.checkpoint, BreakOff())
        except Crash:
            self.restart_from_attempt(NEVER)

    @rule(steps=STEPS)
    def restart_from_attempt(self, steps: int) -> None:
        self.recover(self.committed, steps)

    @rule(steps=STEPS, back=st.integers(0, 5))
    def restart_from_an_older_batch_of_the_attempt(self, steps: int, back: int) -> None:
        """Its directory is damaged; never behind the last checkpoint."""
        self.committed = max(self.committed - back, self.checkpoint)
        self.points = {one for one in self.points if one <= self.committed}
        self.recover(self.committed, steps)

    @rule(share=st.floats(0, 1), steps=STEPS)
    def restore_a_savepoint(self, share: float, steps: int) -> None:
        points = sorted(self.points)
        self.committed = self.checkpoint = points[round(share * (len(points) - 1))]
        self.points = {one for one in points if one <= self.committed}
        self.recover(self.committed, steps)
        assert rows(self.root) == expected(*range(self.committed + 1))

    @invariant()
    def no_row_is_seen_twice_and_none_before_its_checkpoint(self) -> None:
        assert rows(self.root) == expected(*range(self.checkpoint + 1))

    @invariant()
    def nothing_of_a_withdrawn_batch_is_left(self) -> None:
        sink = self.sink(NEVER)
        assert all(sink.state_of(self.committed + n) is None for n in range(1, 4))

    def recover(self, last_kept: int, steps: int) -> None:
        self.attempt += 1
        self.known = set()
        try:
            self.sink(steps).recover(last_kept, self.checkpoint)
        except Crash:
            self.recover(last_kept, NEVER)

    def sink(self, steps: int) -> SinkDirectory:
        crash = crash_after(steps)
        files = CopiedFiles(crash) if self.copies else LOCAL
        return a_sink(self.root, self.attempt, crash, self.compaction, files)


HeldFilesUnderFire.TestCase.settings = settings(
    max_examples=40, stateful_step_count=15, deadline=None, database=None
)
TestHeldFilesUnderFire = HeldFilesUnderFire.TestCase
