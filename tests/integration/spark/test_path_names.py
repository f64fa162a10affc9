"""Directories of sources and sinks may have any name: Python and Spark mean the same directory."""

from tests.integration.spark.fed_files import ALL_ROWS, FILES, ROWS_A_FILE, files_source, put_file
from tests.integration.spark.jobs import JobUnderTest, files_sink

NAME = "my data, 100%20 sure #1 (ü)"


def test_rows_are_read_and_written_in_directories_of_any_name(job: JobUnderTest) -> None:
    place = job.root / NAME
    for number in range(FILES):
        rows = ALL_ROWS[number * ROWS_A_FILE : (number + 1) * ROWS_A_FILE]
        put_file(place / "in", number, rows)
    source = files_source(path=f"{NAME}/in")
    job.define(source, files_sink("rows", path=f"{NAME}/out", partition_by=["k"]))

    job.start()
    job.wait(lambda: len(job.output(f"{NAME}/out")) >= len(ALL_ROWS))
    job.stop_at_boundary()

    read = sorted(row["id"] for row in job.output(f"{NAME}/out"))
    assert read == sorted(row["id"] for row in ALL_ROWS)
    assert sorted(one.name for one in job.root.iterdir()) == sorted(["jobs", NAME])
