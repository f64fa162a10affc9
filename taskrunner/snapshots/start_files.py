"""Finds the files of a Spark checkpoint directory that a query needs to start after a batch.

A checkpoint keeps these files, and the directory of a new attempt is cloned from them. Other files
of the directory (older batches, files of failed tries) are ignored.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from taskrunner.snapshots import spark_state
from taskrunner.snapshots.spark_state import PartitionState

_NUMBER = re.compile(r"\d+")


def small_files(
    directory: Path, batch: int | None, states: Sequence[PartitionState], pending: int | None = None
) -> Iterator[Path]:
    """The files that a query needs, beside those of `states`, to start after `batch`; None: with
    its first batch. `pending` is a batch that had begun and is to run again with the same range.

    Commits are kept as far back as they name state files, because the next snapshot needs them.
    """
    last = -1 if batch is None else batch
    oldest = spark_state.oldest_version(states, otherwise=last + 1) - 1
    for one in visible_files(directory):
        match one.relative_to(directory).parts:
            case ("offsets", name):
                wanted = int(name) in (last - 1, last, pending)
            case ("commits", name):
                wanted = min(oldest, last - 1) <= int(name) <= last
            case ("state", *_):
                wanted = not spark_state.is_state_file(one)
            case _:
                wanted = True
        if wanted:
            yield one


def visible_files(directory: Path) -> Iterator[Path]:
    """All files except hidden ones, which are Hadoop's checksums or temporary."""
    for path in sorted(directory.rglob("*")):
        inside = path.relative_to(directory)
        if path.is_file() and not any(part.startswith(".") for part in inside.parts):
            yield path


def source_log_entry(inside: tuple[str, ...]) -> tuple[int, int] | None:
    """The number of a source and the number of an entry in its log, from the path of the entry's
    file in the directory; None: the file is not in the log of a source.
    """
    match inside:
        case ("sources", source, name) if source.isdigit() and (found := _NUMBER.match(name)):
            return int(source), int(found[0])
        case _:
            return None
