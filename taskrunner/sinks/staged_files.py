"""The files that Spark wrote for one batch, as the driver finds them."""

from pathlib import Path, PurePosixPath

import pyarrow
import pyarrow.orc
import pyarrow.parquet

from jobmanager.core.graph.file_format import FileFormat
from taskrunner.core.staged_rows import BatchIncomplete, StagedFile


def tells_rows(file_format: FileFormat) -> bool:
    """Whether files of this format have their number of rows in a footer."""
    return file_format in (FileFormat.PARQUET, FileFormat.ORC)


def staged_files(staged: Path, file_format: FileFormat) -> list[StagedFile]:
    """Every data file below `staged`, including the empty one that Spark writes for an empty
    partition 0. Raises `BatchIncomplete` if a file has no footer.
    """
    return [
        StagedFile(
            PurePosixPath(path.relative_to(staged).as_posix()),
            path.stat().st_size,
            _rows(path, file_format),
        )
        for path in sorted(staged.rglob("*"))
        if path.is_file() and not path.name.startswith((".", "_"))
    ]


def _rows(path: Path, file_format: FileFormat) -> int | None:
    try:
        if file_format is FileFormat.PARQUET:
            return int(pyarrow.parquet.read_metadata(path).num_rows)
        if file_format is FileFormat.ORC:
            return int(pyarrow.orc.ORCFile(path).nrows)
    except pyarrow.ArrowException as error:
        raise BatchIncomplete(
            f"{path} is not a whole {file_format} file ({path.stat().st_size} bytes: {error}). "
            "Is the directory mounted on every worker, and is there space? Nothing of the batch "
            "was published; the batch runs again after a restart"
        ) from None
    return None
