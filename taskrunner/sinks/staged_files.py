"""The files that Spark wrote for one batch, as the driver finds them."""

from pathlib import PurePath

from jobmanager.core.graph.file_format import FileFormat
from taskrunner.core.staged_rows import BatchIncomplete, StagedFile
from taskrunner.sinks.output_files import LOCAL, NoFooter, OutputFiles


def tells_rows(file_format: FileFormat) -> bool:
    """Whether files of this format have their number of rows in a footer."""
    return file_format in (FileFormat.PARQUET, FileFormat.ORC)


def staged_files(
    staged: PurePath, file_format: FileFormat, files: OutputFiles = LOCAL
) -> list[StagedFile]:
    """Every data file below `staged`, including the empty one that Spark writes for an empty
    partition 0. Raises `BatchIncomplete` if a file has no footer.
    """
    return [
        StagedFile(path, size, _rows(staged / path, size, file_format, files))
        for path, size in files.files_below(staged).items()
        if not path.name.startswith((".", "_"))
    ]


def _rows(path: PurePath, size: int, file_format: FileFormat, files: OutputFiles) -> int | None:
    if not tells_rows(file_format):
        return None
    try:
        return files.count_rows(path, file_format)
    except NoFooter as error:
        raise BatchIncomplete(
            f"{files.shown(path)} is not a whole {file_format} file ({size} bytes: {error}). "
            "Is the directory mounted on every worker, and is there space? Nothing of the batch "
            "was published; the batch runs again after a restart"
        ) from None
