"""What the file operations of a files sink have to keep on every kind of file system."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from jobmanager.core.graph.file_format import FileFormat
from jobmanager.core.paths.location import location_of
from taskrunner.sinks.output_files import LOCAL, FilePart, NoFooter, OutputFiles
from taskrunner.spark.connectors.hadoop_files import open_files

KINDS = ["local", "hdfs", pytest.param("s3a", marks=pytest.mark.long)]


@pytest.fixture(params=KINDS)
def place(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path
) -> Iterator[tuple[OutputFiles, PurePosixPath]]:
    """The operations on a file system, and a directory of it that does not exist yet."""
    root = PurePosixPath(f"/{uuid4().hex}/my files")
    match request.param:
        case "local":
            yield LOCAL, PurePosixPath(tmp_path / "my files")
        case "hdfs":
            uri = request.getfixturevalue("hdfs").uri
            yield open_files(spark, location_of(uri, "/"), {}), root
        case _:
            bucket = request.getfixturevalue("bucket")
            yield open_files(spark, location_of(bucket.uri, "/"), bucket.options), root


def test_the_operations_keep_their_contract(
    place: tuple[OutputFiles, PurePosixPath], spark: SparkSession
) -> None:
    """One test, since a session and a file system take longer to start than all of it."""
    files, root = place
    a, b = root / "x" / "a.json", root / "x" / "b.json"
    # what does not exist
    assert files.size(a) is None
    assert files.names(root) == []
    assert files.files_below(root) == {}
    with pytest.raises(FileNotFoundError):
        files.read(a)
    files.delete(a)
    files.discard(root)
    # a file is created once
    files.make_directory(a.parent)
    assert files.create(a, "é1")
    assert not files.create(a, "other")
    assert (files.read(a), files.size(a)) == ("é1", 3)
    # a file is replaced
    files.write(a, "two")
    assert files.read(a) == "two"
    assert (files.is_directory(root / "x"), files.is_directory(a)) == (True, False)
    # a file is renamed, also over a file that an interrupted rename left
    files.rename(a, b)
    assert (files.size(a), files.read(b)) == (None, "two")
    files.write(a, "two")
    files.rename(a, b)
    assert (files.size(a), files.read(b)) == (None, "two")
    files.write(a, "longer")
    files.publish(a, b)
    assert (files.size(a), files.read(b)) == (None, "longer")
    assert files.names(root / "x") == ["b.json"], "nothing temporary is left"
    assert files.can_rename_into(root / "x")
    assert files.names(root / "x") == ["b.json"]
    # parts of files follow each other in a new file
    c = root / "x" / "c.csv"
    files.write(a, "name\né")
    assert files.read_part(a, 5, 100) == "é".encode()
    assert files.read_part(a, 0, 4) == b"name"
    assert files.read_part(a, 7, 10) == b""
    files.concatenate([FilePart(a, 0), FilePart(b, 2), FilePart(a, 5)], c)
    files.sync_files([c], inside=root)
    assert files.read(c) == "name\nénger" + "é"
    with pytest.raises(FileNotFoundError):
        files.concatenate([FilePart(root / "x" / "missing", 0)], root / "x" / "d")
    for one in (a, c, root / "x" / "d"):
        files.delete(one)
    # what Spark writes is found, and its rows are counted
    for file_format in (FileFormat.PARQUET, FileFormat.ORC):
        out = root / file_format
        spark.range(7).coalesce(1).write.format(file_format).save(files.uri(out))
        data = [one for one in files.files_below(out) if one.name.startswith("part-")]
        assert [files.count_rows(out / one, file_format) for one in data] == [7]
        files.write(out / "bad", "no footer")
        with pytest.raises((NoFooter, OSError)):  # pyarrow has another error for ORC
            files.count_rows(out / "bad", file_format)
    # and all is deleted
    files.delete(b)
    files.discard(root)
    assert files.files_below(root) == {}
