import shutil
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path, PurePath, PurePosixPath

import pyarrow
import pyarrow.orc
import pyarrow.parquet
import pytest

from jobmanager.core.graph.file_format import FileFormat
from jobmanager.core.ids import AttemptNumber
from taskrunner.core.sink_records import RecordState, final_name
from taskrunner.core.sink_segments import CompactionLimits
from taskrunner.core.staged_rows import (
    BatchCount,
    BatchIncomplete,
    OutputFileChanged,
    StagedFile,
    contradiction,
)
from taskrunner.sinks.directory import SinkDirectory
from taskrunner.sinks.output_files import LOCAL, LocalFiles, OutputFiles
from taskrunner.sinks.staged_files import staged_files
from tests.unit.taskrunner.builders import JOB, SINK


class Crash(BaseException):
    """The process is gone."""


def crash_after(steps: int) -> Callable[[str], None]:
    left = [steps]

    def step(name: str) -> None:
        left[0] -= 1
        if left[0] <= 0:
            raise Crash(name)

    return step


def a_sink(
    root: Path,
    attempt: int = 1,
    after_step: Callable[[str], None] = lambda step: None,
    compaction: CompactionLimits | None = None,
    files: OutputFiles = LOCAL,
) -> SinkDirectory:
    return SinkDirectory(
        root / "sink",
        JOB,
        SINK,
        AttemptNumber(attempt),
        nullcontext,
        after_step=after_step,
        compaction=compaction or CompactionLimits(),
        files=files,
    )


class CopiedFiles(LocalFiles):
    """Files as an object store has them: a rename is a copy and a deletion, and the process may die
    between the two.
    """

    def __init__(self, after_step: Callable[[str], None] = lambda step: None) -> None:
        self._after_step = after_step

    def rename(self, before: PurePath, after: PurePath) -> None:
        if self.size(after) is None or self.size(after) != self.size(before):
            shutil.copyfile(before, after)
            self._after_step("copied")
        Path(before).unlink()

    def publish(self, staged: PurePath, final: PurePath) -> None:
        self.rename(staged, final)


def write(sink: SinkDirectory, batch: int, parts: int = 2, held: bool = False) -> None:
    """What the Spark sink does with a batch: rows are `<batch>:<part>`."""
    if sink.state_of(batch) is not None:
        sink.finish(batch)
        return
    staged = Path(sink.stage(batch))
    staged.mkdir()
    files = [staged / f"part-{part:05d}-x-c000.json" for part in range(parts)]
    for part, file in enumerate(files):
        file.write_text(f"{batch}:{part}\n")
    found = staged_files(staged, FileFormat.JSON)
    sink.commit(batch, staged, BatchCount(parts, frozenset(range(parts))), found, held)


def rows(root: Path) -> list[str]:
    """What `cat sink/*` shows."""
    return sorted(
        line
        for path in (root / "sink").rglob("*")
        if path.is_file()
        for line in path.read_text().splitlines()
    )


def test_a_batch_is_seen_under_names_that_do_not_know_the_attempt(tmp_path: Path) -> None:
    write(a_sink(tmp_path, attempt=3), batch=5)

    names = sorted(path.name for path in (tmp_path / "sink").iterdir())
    assert names == [f"{JOB.hex}-out-0000000005-0000{part}.json" for part in range(2)]


def test_a_partition_directory_and_the_endings_stay() -> None:
    name = final_name(JOB, SINK, 1, 2, "day=1/part-00000-x-c000.snappy.parquet")

    assert name == f"day=1/{JOB.hex}-out-0000000001-00002.snappy.parquet"


def test_a_replayed_batch_is_left_alone(tmp_path: Path) -> None:
    write(a_sink(tmp_path), batch=0)
    write(a_sink(tmp_path, attempt=2), batch=0)

    assert rows(tmp_path) == ["0:0", "0:1"]


@pytest.mark.parametrize("steps", range(1, 8))
@pytest.mark.parametrize("is_replayed", [True, False])
def test_wherever_it_crashes_each_row_is_seen_once_in_the_end(
    tmp_path: Path, steps: int, is_replayed: bool
) -> None:
    # Given a batch in place, and a crash somewhere in the next
    write(a_sink(tmp_path), batch=0)
    with suppress(Crash):
        write(a_sink(tmp_path, after_step=crash_after(steps)), batch=1)
    # When the next attempt replays it, or goes back behind it and does it anew
    sink = a_sink(tmp_path, attempt=2)
    sink.recover(last_kept=1 if is_replayed else 0, last_visible=None)
    if not is_replayed:
        assert rows(tmp_path) == ["0:0", "0:1"]
    write(sink, batch=1)
    # Then every row is there once, and nothing is left behind
    assert rows(tmp_path) == ["0:0", "0:1", "1:0", "1:1"]
    assert list(tmp_path.glob(".sink.headgate/*/*/staging/*")) == []


@pytest.mark.parametrize("steps", range(1, 14))
@pytest.mark.parametrize("last_kept", [1, 0, -1])
@pytest.mark.parametrize("held", [True, False])
def test_wherever_it_crashes_where_a_rename_is_a_copy_each_row_is_seen_once_in_the_end(
    tmp_path: Path, steps: int, last_kept: int, held: bool
) -> None:
    """Two records of one batch may be left, and two names of one file."""
    crash = crash_after(steps)
    with suppress(Crash):
        sink = a_sink(tmp_path, after_step=crash, files=CopiedFiles(crash))
        for batch in range(2):
            write(sink, batch, held=held)
            sink.show_up_to(batch)
    crash = crash_after(steps // 2)
    with suppress(Crash):
        a_sink(tmp_path, 2, crash, files=CopiedFiles(crash)).recover(last_kept, last_kept)

    sink = a_sink(tmp_path, 3, files=CopiedFiles())
    sink.recover(last_kept, last_kept)
    seen = set(rows(tmp_path))
    assert seen <= {f"{batch}:{part}" for batch in range(last_kept + 1) for part in range(2)}
    for batch in range(2):
        write(sink, batch)

    assert rows(tmp_path) == ["0:0", "0:1", "1:0", "1:1"]
    assert list(tmp_path.glob(".sink.headgate/*/*/staging/*")) == []
    assert {one.name for one in tmp_path.glob(".sink.headgate/*/*/*.json")} == {"0.json", "1.json"}


@pytest.mark.parametrize("steps", range(1, 8))
def test_a_withdrawal_that_crashes_is_finished_by_the_next_attempt(
    tmp_path: Path, steps: int
) -> None:
    for batch in range(2):
        write(a_sink(tmp_path), batch)
    with suppress(Crash):
        a_sink(tmp_path, 2, crash_after(steps)).recover(last_kept=0, last_visible=None)

    a_sink(tmp_path, 3).recover(last_kept=0, last_visible=None)

    assert rows(tmp_path) == ["0:0", "0:1"]


def test_held_output_is_seen_when_its_checkpoint_completes_and_not_before(tmp_path: Path) -> None:
    sink = a_sink(tmp_path)
    for batch in range(3):
        write(sink, batch, held=True)
    assert rows(tmp_path) == []

    sink.show_up_to(1)

    assert rows(tmp_path) == ["0:0", "0:1", "1:0", "1:1"]
    assert sink.state_of(2) is RecordState.HELD


def test_a_restart_shows_held_output_of_the_completed_checkpoint_and_keeps_the_rest(
    tmp_path: Path,
) -> None:
    for batch in range(3):
        write(a_sink(tmp_path), batch, held=True)

    sink = a_sink(tmp_path, attempt=2)
    sink.recover(last_kept=2, last_visible=0)
    assert rows(tmp_path) == ["0:0", "0:1"]
    sink.show_up_to(2)

    assert len(rows(tmp_path)) == 6


def test_a_restore_behind_held_output_drops_it(tmp_path: Path) -> None:
    for batch in range(3):
        write(a_sink(tmp_path), batch, held=True)

    sink = a_sink(tmp_path, attempt=2)
    sink.recover(last_kept=1, last_visible=1)

    assert sink.state_of(2) is None
    assert rows(tmp_path) == ["0:0", "0:1", "1:0", "1:1"]


def test_nothing_is_private_inside_the_readers_directory(tmp_path: Path) -> None:
    with pytest.raises(Crash):
        write(a_sink(tmp_path, after_step=crash_after(1)), batch=0)

    assert list((tmp_path / "sink").rglob("*")) == []


def test_what_failed_before_it_was_decided_leaves_nothing(tmp_path: Path) -> None:
    sink = a_sink(tmp_path)
    staged = Path(sink.stage(0))
    staged.mkdir()

    sink.abandon(0, staged)

    assert not staged.exists()


def test_what_was_decided_is_not_abandoned(tmp_path: Path) -> None:
    sink = a_sink(tmp_path, after_step=crash_after(2))
    with pytest.raises(Crash):
        write(sink, batch=0)
    [staged] = tmp_path.glob(".sink.headgate/*/*/staging/*")

    sink.abandon(0, staged)
    a_sink(tmp_path, attempt=2).recover(last_kept=0, last_visible=0)

    assert rows(tmp_path) == ["0:0", "0:1"]


def staged_on_disk(root: Path) -> list[Path]:
    return sorted(one for one in root.glob(".sink.headgate/*/*/staging/*/*") if one.is_file())


def after(wanted: str, do: Callable[[], None]) -> Callable[[str], None]:
    """Something happens to the disk once, after a step."""
    left = [do]

    def step(name: str) -> None:
        if name == wanted and left:
            left.pop()()

    return step


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


DAMAGES = pytest.mark.parametrize(
    "damage", [Path.unlink, truncated, lambda path: shutil.rmtree(path.parent)]
)


@DAMAGES
def test_a_batch_whose_staged_file_changed_is_not_decided(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    # Given a batch that is written, and a file of it that is lost before the decision
    sink = a_sink(tmp_path, after_step=after("staged", lambda: damage(staged_on_disk(tmp_path)[1])))
    # When it is to be decided
    with pytest.raises(BatchIncomplete, match=r"sink out, batch 0: .*mounted on every worker"):
        write(sink, batch=0)
    # Then nothing is, and the batch can run again
    assert sink.state_of(0) is None
    assert rows(tmp_path) == []
    sink = a_sink(tmp_path, attempt=2)
    sink.recover(last_kept=0, last_visible=None)
    write(sink, batch=0)
    assert rows(tmp_path) == ["0:0", "0:1"]


@pytest.mark.parametrize("file_format", [FileFormat.PARQUET, FileFormat.JSON])
def test_rows_without_files_are_not_published(tmp_path: Path, file_format: FileFormat) -> None:
    sink = a_sink(tmp_path)
    staged = Path(sink.stage(7))

    with pytest.raises(BatchIncomplete, match="batch 7: Spark counted 500 rows, but no file"):
        sink.commit(7, staged, BatchCount(500), staged_files(staged, file_format), held=False)

    assert sink.state_of(7) is None


@pytest.mark.parametrize("file_format", [FileFormat.PARQUET, FileFormat.ORC])
@pytest.mark.parametrize("counted", [0, 3, 5])
def test_rows_are_counted_in_the_footers(
    tmp_path: Path, file_format: FileFormat, counted: int
) -> None:
    sink = a_sink(tmp_path)
    staged = Path(sink.stage(0))
    staged.mkdir()
    for part, ids in enumerate([[], [1, 2], [3, 4]]):
        rows_of_part = pyarrow.table({"id": pyarrow.array(ids, pyarrow.int64())})
        file = staged / f"part-{part:05d}-x-c000.{file_format}"
        if file_format is FileFormat.PARQUET:
            pyarrow.parquet.write_table(rows_of_part, file)
        else:
            pyarrow.orc.write_table(rows_of_part, file)
    found = staged_files(staged, file_format)

    with pytest.raises(
        BatchIncomplete, match=f"counted {counted} rows, but 2 files found, with 4 rows in all"
    ):
        sink.commit(0, staged, BatchCount(counted), found, held=False)
    assert sink.state_of(0) is None
    sink.commit(0, staged, BatchCount(4), found, held=False)

    assert len(list((tmp_path / "sink").iterdir())) == 2


def test_a_file_without_its_footer_is_named(tmp_path: Path) -> None:
    (tmp_path / "part-00000-x.parquet").write_bytes(b"PAR1 and no more")

    with pytest.raises(BatchIncomplete, match=r"part-00000-x\.parquet is not a whole parquet file"):
        staged_files(tmp_path, FileFormat.PARQUET)


def a_file(partition: int, size: int = 10) -> StagedFile:
    return StagedFile(PurePosixPath(f"day=1/part-{partition:05d}-x-c000.csv"), size)


def test_the_partitions_that_had_rows_have_files() -> None:
    count = BatchCount(500, frozenset({1, 3, 4}))

    assert contradiction(count, [a_file(0, 0), a_file(1), a_file(3), a_file(4)]) is None
    assert contradiction(count, [a_file(1), a_file(3), a_file(4, 0)]) == (
        "2 files found, and none of these partitions with rows: 4"
    )
    assert contradiction(BatchCount(0, frozenset()), [a_file(0)]) is None  # a header


def test_as_many_files_are_found_as_the_tasks_wrote() -> None:
    count = BatchCount(3, files=2)
    assert contradiction(count, [a_file(0, 0), a_file(1)]) is None
    assert contradiction(count, [a_file(1)]) == "1 file found, and Spark's tasks wrote 2 files"


def test_a_batch_without_rows_leaves_nothing(tmp_path: Path) -> None:
    sink = a_sink(tmp_path)
    write(sink, batch=0, parts=0)

    assert sink.state_of(0) is None
    assert list(tmp_path.glob(".sink.headgate/*/*/staging/*")) == []


@DAMAGES
@pytest.mark.parametrize("held", [True, False])
def test_what_was_decided_and_then_lost_is_named_and_not_published(
    tmp_path: Path, held: bool, damage: Callable[[Path], None]
) -> None:
    # Given a decided batch, a crash, and a file that did not survive it
    with suppress(Crash):
        write(a_sink(tmp_path, after_step=crash_after(2)), batch=0, held=held)
    damage(staged_on_disk(tmp_path)[0])
    # When the next attempts recover
    for attempt in (2, 3):
        with pytest.raises(OutputFileChanged, match=f"{JOB.hex}-out-0000000000-00000.json with 4 "):
            a_sink(tmp_path, attempt).recover(last_kept=0, last_visible=0)
    # Then nothing is seen, until a restore goes back behind the batch
    assert rows(tmp_path) == []
    a_sink(tmp_path, 4).recover(last_kept=-1, last_visible=None)
    write(a_sink(tmp_path, 4), batch=0)
    assert rows(tmp_path) == ["0:0", "0:1"]


def test_a_file_that_was_lost_after_it_was_put_in_its_place_is_named(tmp_path: Path) -> None:
    with suppress(Crash):
        write(a_sink(tmp_path, after_step=crash_after(3)), batch=0)
    [published] = (tmp_path / "sink").iterdir()
    published.unlink()

    with pytest.raises(OutputFileChanged, match=f"{published.name} .*the file is not there"):
        a_sink(tmp_path, attempt=2).recover(last_kept=0, last_visible=0)


def damaged_record(root: Path, batch: int) -> Path:
    [record] = root.glob(f".sink.headgate/*/*/{batch}*.json")
    return record


@pytest.mark.parametrize("size", [0, 20])
@pytest.mark.parametrize("is_held", [True, False])
def test_a_batch_whose_record_is_damaged_is_withdrawn_by_the_names_of_its_files(
    tmp_path: Path, size: int, is_held: bool
) -> None:
    write(a_sink(tmp_path), batch=0)
    write(a_sink(tmp_path), batch=1, held=is_held)
    record = damaged_record(tmp_path, 1)
    record.write_bytes(record.read_bytes()[:size])
    assert sorted(a_sink(tmp_path, 2).lost_batches()) == ([1] if is_held else [])

    sink = a_sink(tmp_path, attempt=2)
    sink.recover(last_kept=0, last_visible=None)
    assert rows(tmp_path) == ["0:0", "0:1"]
    write(sink, batch=1)

    assert rows(tmp_path) == ["0:0", "0:1", "1:0", "1:1"]
    assert list(tmp_path.glob(".sink.headgate/*/*/staging/*")) == []


def test_a_batch_that_cannot_be_shown_is_told_before_anything_is_done(tmp_path: Path) -> None:
    for batch in range(3):
        write(a_sink(tmp_path), batch, held=True)
    first, *_ = sorted(tmp_path.glob(".sink.headgate/*/*/staging/*-1-*/*"))
    first.write_bytes(b"")

    lost = a_sink(tmp_path, attempt=2).lost_batches()

    assert list(lost) == [1]
    assert lost[1].startswith("sink out, batch 1: the record names ")
    assert "and the file has 0 bytes" in lost[1]


def test_a_record_that_is_damaged_and_wanted_is_named(tmp_path: Path) -> None:
    write(a_sink(tmp_path), batch=0, held=True)
    damaged_record(tmp_path, 0).write_bytes(b"")

    with pytest.raises(OutputFileChanged, match=r"sink out, batch 0: the record .* is damaged"):
        a_sink(tmp_path, attempt=2).recover(last_kept=0, last_visible=0)
