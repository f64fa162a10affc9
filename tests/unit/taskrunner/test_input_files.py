"""A link among the input files of a stream is looked at before the batch that would read it."""

import json
from pathlib import Path

import pytest

from jobmanager.core.errors import PathNotAllowed
from jobmanager.files.resolved_places import path_rules
from taskrunner.spark.run.input_files import InputFiles


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def write(log: Path, *entries: tuple[int, str]) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"path": path, "timestamp": 1, "batchId": n}) for n, path in entries]
    log.write_text("\n".join(["v1", *lines]))


def inputs(tmp_path: Path, data: Path) -> InputFiles:
    rule = path_rules([str(data)], [], str(data)).graphs
    return InputFiles(tmp_path / "query", rule, (tmp_path / "job").as_uri())


def test_a_link_that_came_among_the_files_is_refused_before_it_is_read(
    tmp_path: Path, data: Path
) -> None:
    (data / "a").write_text("1")
    (data / "b").symlink_to("/etc/passwd")
    found = inputs(tmp_path, data)
    log = tmp_path / "query" / "sources" / "0"
    write(log / "0", (0, (data / "a").as_uri()))
    found.check()

    write(log / "1", (1, (data / "b").as_uri()))

    with pytest.raises(PathNotAllowed, match="leads to /etc/passwd through a symbolic link"):
        found.check()


def test_each_entry_is_looked_at_once_also_where_the_log_was_compacted(
    tmp_path: Path, data: Path
) -> None:
    (data / "a").write_text("1")
    found = inputs(tmp_path, data)
    log = tmp_path / "query" / "sources" / "0"
    write(log / "0", (0, (data / "a").as_uri()))
    found.check()
    (data / "a").unlink()
    (data / "a").symlink_to("/etc/passwd")  # it was read already

    write(log / "1.compact", (0, (data / "a").as_uri()), (1, (data / "new").as_uri()))
    found.check()
    write(log / "2", (2, "file:///etc/passwd"))

    with pytest.raises(PathNotAllowed, match="/etc/passwd is not allowed"):
        found.check()


def test_rows_of_the_job_itself_and_logs_of_other_sources_are_fine(
    tmp_path: Path, data: Path
) -> None:
    found = inputs(tmp_path, data)
    write(tmp_path / "query/sources/0/0", (0, (tmp_path / "job/rows/x.json").as_uri()))
    (tmp_path / "query/sources/1").mkdir()
    (tmp_path / "query/sources/1/0").write_text("v1\n1700000000000")

    found.check()


def test_a_file_on_a_remote_file_system_has_to_be_below_an_allowed_path(tmp_path: Path) -> None:
    """Spark's log has the names of files with percent-encoding."""
    rule = path_rules(["s3a://bucket/new orders"], [], str(tmp_path)).graphs
    found = InputFiles(tmp_path / "query", rule, (tmp_path / "job").as_uri())
    log = tmp_path / "query" / "sources" / "0"
    write(log / "0", (0, "s3a://bucket/new%20orders/a%20b.json"))
    found.check()

    for number, path in enumerate(
        ["s3a://bucket/other", "s3a://bucket/new%20orders/%2E%2E/other", "s3a://b2/new%20orders/x"]
    ):
        write(log / str(number + 1), (number + 1, path))
        with pytest.raises(PathNotAllowed):
            found.check()
