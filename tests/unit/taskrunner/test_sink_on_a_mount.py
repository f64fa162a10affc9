"""A sink whose directory is a mount point, and clones where no link can be, on a second device.

A link to a directory on another device stands for the mount: like a mount it has a parent from
which nothing can be renamed into it.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from uuid import UUID, uuid4

import pyarrow.dataset
import pytest

from jobmanager.core.ids import AttemptNumber, JobId
from jobmanager.core.snapshots.manifest import Ancestor
from jobmanager.files import durable
from taskrunner.core.restore import FromAttempt
from taskrunner.sinks.continuation import continue_output
from taskrunner.sinks.directory import SinkDirectory
from taskrunner.sinks.outputs import OutputNotMounted, note_outputs, prepare_outputs
from taskrunner.sinks.private_directory import make_private_directory, private_directory
from taskrunner.snapshots.clone import Clones, Past
from taskrunner.snapshots.layout import JobLayout
from taskrunner.snapshots.spark_log import SparkLog
from tests.unit.taskrunner.builders import JOB, OUT, SINK, spark_directory
from tests.unit.taskrunner.test_sink_directory import Crash, a_sink, crash_after, write


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """An empty directory on another device than `tmp_path`."""
    directory = Path("/dev/shm") / f"headgate-test-{uuid4().hex}"
    directory.mkdir()
    try:
        if directory.stat().st_dev == tmp_path.stat().st_dev:
            pytest.skip("/dev/shm is on the device of the temporary directory")
        yield directory
    finally:
        shutil.rmtree(directory)


@pytest.fixture
def mounted(tmp_path: Path, volume: Path) -> Path:
    """`<tmp_path>/sink`, which is on the volume."""
    (tmp_path / "sink").symlink_to(volume)
    return tmp_path / "sink"


def rows(directory: Path) -> list[str]:
    """What a plain reader sees: Spark, pyarrow and `cat *` pass over hidden names."""
    found = pyarrow.dataset.dataset(directory, format="csv")
    return sorted(line for path in found.files for line in Path(path).read_text().splitlines())


def test_nothing_is_renamed_from_beside_a_mount_point(mounted: Path) -> None:
    (mounted.parent / "x").touch()

    with pytest.raises(OSError, match=os.strerror(errno.EXDEV)):
        (mounted.parent / "x").rename(mounted / "x")


def test_records_and_staging_of_a_mount_point_are_inside_of_it(mounted: Path) -> None:
    private = make_private_directory(mounted)
    sink = a_sink(mounted.parent)
    write(sink, batch=0)
    staged = sink.stage(1)

    assert private == mounted / ".headgate" == private_directory(mounted)
    assert staged.is_relative_to(private)
    assert [one.name for one in private.glob("*/*/*.json")] == ["0.json"]
    assert rows(mounted) == ["0:0", "0:1"]
    assert {one.name for one in mounted.parent.iterdir()} == {"sink"}, "nothing is left beside"


def test_an_ordinary_directory_has_them_beside_also_when_it_is_not_made_yet(
    tmp_path: Path,
) -> None:
    (tmp_path / "there").mkdir()

    assert make_private_directory(tmp_path / "there") == tmp_path / ".there.headgate"
    assert make_private_directory(tmp_path / "new") == tmp_path / ".new.headgate"
    assert {one.name for one in tmp_path.iterdir()} == {"there", ".there.headgate", ".new.headgate"}
    assert list((tmp_path / "there").iterdir()) == []


def test_a_directory_whose_parent_may_not_be_written_has_them_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sink").mkdir()

    def refuse(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "the tests run as root, whom nothing is refused")

    monkeypatch.setattr(Path, "touch", refuse)

    assert make_private_directory(tmp_path / "sink") == tmp_path / "sink" / ".headgate"


@pytest.mark.parametrize("steps", range(1, 8))
@pytest.mark.parametrize("is_beside", [True, False])
def test_wherever_it_crashes_each_row_is_seen_once_in_the_end(
    mounted: Path, steps: int, is_beside: bool
) -> None:
    """Also where records were put beside it before it was a mount point, or by a release that
    knew no better: there the files are copied.
    """
    if is_beside:
        (mounted.parent / ".sink.headgate").mkdir()
    private = make_private_directory(mounted)
    assert private == mounted.parent / ".sink.headgate" if is_beside else mounted / ".headgate"
    write(a_sink(mounted.parent), batch=0)
    with suppress(Crash):
        write(a_sink(mounted.parent, after_step=crash_after(steps)), batch=1)

    sink = a_sink(mounted.parent, attempt=2)
    sink.recover(last_kept=1, last_visible=None)
    write(sink, batch=1)

    assert rows(mounted) == ["0:0", "0:1", "1:0", "1:1"]
    assert list(private.glob("*/*/staging/*")) == []
    sink.recover(last_kept=0, last_visible=None)
    assert rows(mounted) == ["0:0", "0:1"]


def test_a_file_that_was_half_copied_is_not_seen(mounted: Path) -> None:
    (mounted.parent / ".sink.headgate").mkdir()
    with suppress(Crash):
        write(a_sink(mounted.parent, after_step=crash_after(2)), batch=0)
    [record] = (mounted.parent / ".sink.headgate").glob("*/*/0.pending.json")
    (mounted / f".{JOB.hex}-out-0000000000-00000.json.moved.tmp").write_text("0:")

    assert rows(mounted) == []
    a_sink(mounted.parent, attempt=2).recover(last_kept=0, last_visible=None)

    assert rows(mounted) == ["0:0", "0:1"]
    assert not record.exists()
    assert {one.name for one in mounted.iterdir() if one.name.startswith(".")} == set()


def test_a_job_that_goes_on_with_anothers_output_finds_its_records_inside(mounted: Path) -> None:
    make_private_directory(mounted)
    for batch in range(3):
        write(a_sink(mounted.parent), batch)
    other = JobId(UUID(int=8))

    continue_output(mounted, other, SINK, (Ancestor(JOB, {SINK: 1}),), lambda job: nullcontext)
    sink = SinkDirectory(mounted, other, SINK, AttemptNumber(1), nullcontext)
    write(sink, batch=2)

    assert rows(mounted) == ["0:0", "0:1", "1:0", "1:1", "2:0", "2:1"]
    assert sink.state_of(1) is None


def test_a_volume_that_is_not_mounted_any_more_is_not_begun_anew(
    mounted: Path, layout: JobLayout
) -> None:
    outputs = [(SINK, mounted)]
    for _ in range(2):
        assert prepare_outputs(layout, outputs) == [mounted / ".headgate"]
        note_outputs(layout, outputs)
    mounted.unlink()
    mounted.mkdir()

    with pytest.raises(OutputNotMounted, match=f"the records .* are missing in {mounted}"):
        prepare_outputs(layout, outputs)
    assert list(mounted.iterdir()) == []


def test_outputs_that_an_earlier_release_noted_are_found(tmp_path: Path, layout: JobLayout) -> None:
    layout.work.write("outputs.json", f'[{{"sink": "out", "directory": "{tmp_path}/sink"}}]')

    assert prepare_outputs(layout, [(SINK, tmp_path / "sink")]) == [tmp_path / ".sink.headgate"]
    note_outputs(layout, [(SINK, tmp_path / "sink")])

    assert layout.work.read("outputs.json").decode().count("directory") == 1


def test_a_clone_is_made_of_copies_where_no_link_can_be(layout: JobLayout, volume: Path) -> None:
    spark = spark_directory(layout, 1)
    spark.commit(0)
    spark.snapshot(version=1, shared=["000008"])
    spark.commit(1)
    home = layout.directory / "attempts" / "1"
    shutil.copytree(home, volume / "1")
    shutil.rmtree(home)
    home.symlink_to(volume / "1")
    clones = Clones(layout, AttemptNumber(2), Past())

    choice = clones.choose(OUT)
    clones.draft(OUT, choice)
    clones.finish(OUT)

    assert isinstance(choice, FromAttempt)
    clone = layout.spark_checkpoint_dir(AttemptNumber(2), OUT)
    assert SparkLog(clone).last_committed() == 1
    for path in (one for one in clone.rglob("*") if one.is_file()):
        assert path.read_bytes() == (home / "out" / path.relative_to(clone)).read_bytes()


@pytest.mark.parametrize(
    "refusal", [errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS]
)
def test_files_are_created_and_copied_where_links_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: int
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(refusal, os.strerror(refusal))

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "source").write_text("rows")

    durable.link_or_copy(tmp_path / "source", tmp_path / "copy")
    assert durable.link_or_copy_new(tmp_path / "source", tmp_path / "new")
    assert not durable.link_or_copy_new(tmp_path / "source", tmp_path / "new")
    assert durable.create(tmp_path / "record", "decided")
    assert not durable.create(tmp_path / "record", "decided again")

    assert (tmp_path / "copy").read_text() == (tmp_path / "new").read_text() == "rows"
    assert (tmp_path / "record").read_text() == "decided"
    assert {one.name for one in tmp_path.iterdir()} == {"source", "copy", "new", "record"}
