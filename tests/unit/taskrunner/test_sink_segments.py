"""Records of many batches in few files: the sets, the files, and what old directories become."""

import errno
import random
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.ids import AttemptNumber
from jobmanager.core.snapshots.layout import temporary_name
from taskrunner.core import sink_segments
from taskrunner.core.sink_records import OutputFile, Record, RecordState, final_name
from taskrunner.core.sink_segments import (
    Batches,
    BatchGroup,
    CompactionLimits,
    FileShape,
    Segment,
    SegmentName,
)
from taskrunner.core.staged_rows import OutputFileChanged
from taskrunner.sinks.record_segments import RecordSegments
from taskrunner.snapshots import durable
from tests.unit.taskrunner.builders import JOB, SINK
from tests.unit.taskrunner.test_sink_directory import Crash, a_sink, crash_after, rows, write

SETS = st.sets(st.integers(0, 40))
FEW = CompactionLimits(kept=3, at_once=2)


@given(one=SETS, other=SETS, batch=st.integers(-2, 42))
def test_sets_of_batches_are_sets(one: set[int], other: set[int], batch: int) -> None:
    left, right = Batches.of(one), Batches.of(other)

    assert set(left | right) == one | other
    assert set(left - right) == one - other
    assert set(left.after(batch)) == {each for each in one if each > batch}
    assert (batch in left) == (batch in one)
    assert bool(left) == bool(one)
    assert left == Batches.of(left)  # ranges that touch are one range
    assert (left | right) == Batches.of(one | other)
    assert (left - right) == Batches.of(one - other)


SHAPES = st.tuples(st.builds(FileShape, st.sampled_from(["", "day=1", "a/b"]), st.just("00000.x")))
SEGMENTS = st.builds(
    Segment,
    st.dictionaries(
        st.builds(BatchGroup, st.integers(1, 3), SHAPES),
        st.sets(st.integers(0, 40), min_size=1).map(Batches.of),
    ),
)


@given(one=SEGMENTS, other=SEGMENTS, batch=st.integers(0, 42), gone=SETS)
def test_segments_are_sets_of_batches_with_their_files(
    one: Segment, other: Segment, batch: int, gone: set[int]
) -> None:
    def named(segment: Segment) -> set[str]:
        return set(segment.finals(JOB, SINK))

    assert sink_segments.from_text(sink_segments.to_text(one)) == one
    assert named(one | other) == named(one) | named(other)
    assert set((one | other).batches) == set(one.batches) | set(other.batches)
    assert named(one.after(batch)) | named(one.without(Batches.of(range(batch + 1, 99)))) == named(
        one
    )
    assert set(one.without(Batches.of(gone)).batches) == set(one.batches) - gone
    assert all(group.attempt > 1 for group in one.of_attempts_after(1).groups)
    if one:
        name = sink_segments.name_of(one)
        assert sink_segments.parse_name(str(name)) == name
        assert (name.first, name.last) == (min(one.batches), max(one.batches))


def a_record(batch: int, *staged: str) -> Record:
    files = [
        OutputFile(f"staging/x/{name}", final_name(JOB, SINK, batch, part, name), 10)
        for part, name in enumerate(staged)
    ]
    return Record(batch, 5, 1, tuple(files))


def test_a_segment_names_the_files_of_its_records() -> None:
    records = [
        a_record(0, "part-0.snappy.parquet"),
        a_record(1, "day=1/part-0.json", "day=2/hour=3/part-7.json"),
        a_record(3, "part-0.snappy.parquet"),
    ]

    segment = sink_segments.compacted(JOB, SINK, records)

    assert sorted(segment.finals(JOB, SINK)) == sorted(
        file.final for record in records for file in record.files
    )
    assert set(segment.batches) == {0, 1, 3}


def test_a_record_whose_files_have_other_names_is_not_compacted() -> None:
    strange = Record(4, 5, 1, (OutputFile("staging/x/a", "some-name.json", 10),))

    assert not sink_segments.compacted(JOB, SINK, [strange])


@pytest.mark.parametrize("are_alike", [True, False])
def test_the_number_of_segments_is_bounded(are_alike: bool) -> None:
    """A model of the files: batches that are all alike, and batches that have nothing in common."""
    weight, most_files = (3, 10) if are_alike else (250, 50)
    names: set[SegmentName] = set()
    written = 0
    for number in range(20_000):
        names.add(SegmentName(100 * number, 100 * number + 99, weight))
        while found := sink_segments.to_merge(names):
            names -= set(found)
            merged = weight if are_alike else sum(one.weight for one in found)
            written += merged
            names.add(SegmentName(found[0].first, found[-1].last, merged))
        assert len(names) <= most_files
    # A batch is written a few times, however many there are.
    assert written <= 4 * 20_000 * weight


def test_a_segment_whose_name_is_taken_keeps_the_batches_of_both(tmp_path: Path) -> None:
    group = BatchGroup(1, (FileShape("", "00000.json"),))
    one, other = (Segment({group: Batches.of(batches)}) for batches in ([0, 1, 3], [0, 2, 3]))
    assert sink_segments.name_of(one) == sink_segments.name_of(other)
    segments = RecordSegments(tmp_path / "segments", tmp_path, JOB, SINK, lambda step: None)

    segments.add(one)
    segments.add(other)

    assert {segments.state_of(batch) for batch in range(4)} == {RecordState.PUBLISHED}


def private(root: Path) -> Path:
    return root / ".sink.headgate" / JOB.hex / SINK


def test_the_files_of_records_are_few_however_many_batches_there_are(tmp_path: Path) -> None:
    sink = a_sink(tmp_path, compaction=FEW)
    for batch in range(60):
        write(sink, batch, parts=1)
        assert len(list(private(tmp_path).glob("*.json"))) <= 5
        assert len(list(private(tmp_path).glob("segments/*"))) <= 10

    assert len(rows(tmp_path)) == 60
    assert {sink.state_of(batch) for batch in range(60)} == {RecordState.PUBLISHED}
    assert sink.state_of(60) is None


@pytest.mark.parametrize("last_kept", [-1, 0, 17, 40, 55, 58, 59])
def test_a_restore_withdraws_exactly_the_later_batches(tmp_path: Path, last_kept: int) -> None:
    sink = a_sink(tmp_path, compaction=FEW)
    for batch in range(60):
        write(sink, batch, parts=1 + batch % 2)
    before = rows(tmp_path)

    later = a_sink(tmp_path, attempt=2, compaction=FEW)
    later.recover(last_kept=last_kept, last_visible=last_kept)

    assert rows(tmp_path) == [one for one in before if int(one.split(":")[0]) <= last_kept]
    assert [later.state_of(batch) is not None for batch in range(60)] == [
        batch <= last_kept for batch in range(60)
    ]
    for batch in range(last_kept + 1, 60):
        write(later, batch, parts=1 + batch % 2)
    assert rows(tmp_path) == before
    assert not list(private(tmp_path).glob("segments/*.withdrawn.json"))


def test_a_withdrawal_that_began_is_finished_though_the_next_attempt_wants_less(
    tmp_path: Path,
) -> None:
    sink = a_sink(tmp_path, compaction=FEW)
    for batch in range(20):
        write(sink, batch, parts=1)
    with suppress(Crash):
        a_sink(tmp_path, 2, crash_after(4), FEW).recover(last_kept=9, last_visible=None)
    found = a_sink(tmp_path, 2, compaction=FEW)
    assert found.state_of(9) is RecordState.PUBLISHED
    assert found.state_of(10) is RecordState.WITHDRAWN

    found.recover(last_kept=15, last_visible=None)

    assert {found.state_of(batch) for batch in range(10, 16)} == {None}
    assert rows(tmp_path) == sorted(f"{batch}:0" for batch in range(10))


def test_a_batch_that_was_written_again_meanwhile_is_not_withdrawn(tmp_path: Path) -> None:
    """A runner of the version before knows no segments: it may write while a withdrawal waits."""
    sink = a_sink(tmp_path, compaction=FEW)
    for batch in range(20):
        write(sink, batch, parts=1)
    with suppress(Crash):
        a_sink(tmp_path, 2, crash_after(4), FEW).recover(last_kept=9, last_visible=None)
    [waiting] = private(tmp_path).glob("segments/*.withdrawn.json")
    hidden = waiting.rename(tmp_path / waiting.name)
    old = a_sink(tmp_path, 3, compaction=CompactionLimits())
    old.recover(last_kept=9, last_visible=None)
    for batch in range(10, 13):
        write(old, batch, parts=1)
    hidden.rename(waiting)

    a_sink(tmp_path, 4, compaction=FEW).recover(last_kept=12, last_visible=None)

    assert rows(tmp_path) == sorted(f"{batch}:0" for batch in range(13))


def test_records_of_an_older_version_are_compacted_little_by_little(tmp_path: Path) -> None:
    old = a_sink(tmp_path, compaction=CompactionLimits(kept=10**6))
    for batch in range(40):
        write(old, batch, parts=1)
    assert len(list(private(tmp_path).glob("*.json"))) == 40

    new = a_sink(tmp_path, attempt=2, compaction=FEW)
    new.recover(last_kept=39, last_visible=None)
    for batch in range(40, 80):
        before = len(list(private(tmp_path).glob("*.json")))
        write(new, batch, parts=1)
        assert len(list(private(tmp_path).glob("*.json"))) >= before - 1
    assert len(list(private(tmp_path).glob("*.json"))) <= 5

    a_sink(tmp_path, 3, compaction=FEW).recover(last_kept=21, last_visible=None)
    assert rows(tmp_path) == sorted(f"{batch}:0" for batch in range(22))


def test_output_of_attempts_that_were_rolled_back_is_withdrawn_from_segments(
    tmp_path: Path,
) -> None:
    for attempt in (1, 2, 3):
        sink = a_sink(tmp_path, attempt, compaction=FEW)
        for batch in range(10 * attempt, 10 * attempt + 10):
            write(sink, batch, parts=1)

    a_sink(tmp_path, 4, compaction=FEW).withdraw_after(AttemptNumber(1))

    assert rows(tmp_path) == sorted(f"{batch}:0" for batch in range(10, 20))


def test_held_and_empty_batches_are_not_compacted(tmp_path: Path) -> None:
    sink = a_sink(tmp_path, compaction=FEW)
    for batch in range(20):
        write(sink, batch, parts=batch % 2, held=batch > 15)
    assert sink.state_of(14) is None
    assert sink.state_of(19) is RecordState.HELD

    sink.show_up_to(17)

    assert sink.state_of(17) is RecordState.PUBLISHED
    assert rows(tmp_path) == sorted(f"{batch}:0" for batch in range(1, 18, 2))


@pytest.mark.parametrize("damage", [0, 30])
def test_a_damaged_segment_is_withdrawn_by_the_names_of_the_files(
    tmp_path: Path, damage: int
) -> None:
    sink = a_sink(tmp_path, compaction=FEW)
    for batch in range(20):
        write(sink, batch, parts=1)
    for one in private(tmp_path).glob("segments/*"):
        one.write_bytes(one.read_bytes()[:damage])
    with pytest.raises(OutputFileChanged, match=r"sink out, batches .* are damaged"):
        sink.state_of(2)

    later = a_sink(tmp_path, attempt=2, compaction=FEW)
    later.recover(last_kept=4, last_visible=None)

    assert rows(tmp_path) == sorted(f"{batch}:0" for batch in range(5))
    assert [later.state_of(batch) is not None for batch in (4, 5, 19)] == [True, False, False]


def test_a_damaged_record_stays_as_it_is(tmp_path: Path) -> None:
    sink = a_sink(tmp_path, compaction=FEW)
    write(sink, 0)
    (private(tmp_path) / "0.json").write_bytes(b"{")
    for batch in range(1, 20):
        write(sink, batch)
    assert (private(tmp_path) / "0.json").exists()

    a_sink(tmp_path, 2, compaction=FEW).recover(last_kept=-1, last_visible=None)

    assert rows(tmp_path) == []


def test_records_that_cannot_be_compacted_cost_no_batch_and_are_compacted_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: str | bytes) -> None:
        raise OSError(errno.ENOSPC, "no space left", str(path))

    sink = a_sink(tmp_path, compaction=FEW)
    with monkeypatch.context() as patched:
        patched.setattr(durable, "write", full)
        for batch in range(9):
            write(sink, batch, parts=1)
    assert len(list(private(tmp_path).glob("*.json"))) == 9

    for batch in range(9, 18):
        write(sink, batch, parts=1)

    assert len(list(private(tmp_path).glob("*.json"))) <= 5
    assert len(rows(tmp_path)) == 18


def test_what_a_crash_left_half_written_is_deleted(tmp_path: Path) -> None:
    sink = a_sink(tmp_path, compaction=FEW)
    for batch in range(9):
        write(sink, batch, parts=1)
    half_written = [
        private(tmp_path) / temporary_name("9.pending.json", "a1"),
        private(tmp_path) / "segments" / temporary_name("0-3-2.json", "a2"),
    ]
    for one in half_written:
        one.write_text("{")
    assert sink.state_of(9) is None

    a_sink(tmp_path, 2, compaction=FEW).recover(last_kept=8, last_visible=None)

    assert not any(one.exists() for one in half_written)
    assert len(rows(tmp_path)) == 9


@pytest.mark.parametrize("seed", range(3))
def test_wherever_compaction_and_merging_crash_no_record_is_lost(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    last = -1
    for attempt in range(1, 40):
        sink = a_sink(tmp_path, attempt, crash_after(chance.randint(1, 60)), FEW)
        with suppress(Crash):
            sink.recover(last_kept=last + 1, last_visible=None)
            for batch in range(last + 1, last + 8):
                write(sink, batch, parts=1)
                last = batch
    sink = a_sink(tmp_path, 99, compaction=FEW)
    sink.recover(last_kept=last, last_visible=None)

    assert all(sink.state_of(batch) is RecordState.PUBLISHED for batch in range(last + 1))
    sink.recover(last_kept=last // 2, last_visible=None)
    assert rows(tmp_path) == sorted(f"{batch}:0" for batch in range(last // 2 + 1))
