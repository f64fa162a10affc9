"""Whether the files that a batch is about to read are where the job may read.

The directory of a source is looked at when an attempt starts. Files come later, and one of them
may be a symbolic link to somewhere else: Spark follows it. What a batch reads is in the log of each
source before the batch is computed.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from jobmanager.core.errors import PathNotAllowed
from jobmanager.core.paths.allowed_paths import AllowedPaths
from jobmanager.files.resolved_places import place_fault

_COMPACT = ".compact"


class InputFiles:
    """The input files of one streaming query."""

    def __init__(self, spark_checkpoint_dir: Path, rule: AllowedPaths, own: str) -> None:
        """`own` is the URI of the job's directory, where rows of `table` sources are."""
        self._sources = spark_checkpoint_dir / "sources"
        self._rule = rule
        self._own = f"{own}/"
        self._seen: dict[str, int] = {}
        """Source to the last entry of its log that was looked at."""

    def check(self) -> None:
        """Looks at what came into the logs since the last call. Raises `PathNotAllowed`."""
        for source in sorted(self._sources.glob("*/")):
            seen = self._seen.get(source.name, -1)
            for number, path in _entries(source, seen):
                seen = max(seen, number)
                if path.startswith(self._own):
                    continue
                if fault := place_fault(self._rule, _named(path)):
                    raise PathNotAllowed(f"an input file: {fault}")
            self._seen[source.name] = seen


def _entries(source: Path, seen: int) -> Iterator[tuple[int, str]]:
    """Number and path of each file that the log of a source names after entry `seen`."""
    for log in sorted(source.iterdir()):
        name = log.name.removesuffix(_COMPACT)
        if not name.isdigit() or int(name) <= seen:
            continue
        for line in log.read_text(encoding="utf-8").splitlines()[1:]:
            found = _document(line)
            number, path = found.get("batchId"), found.get("path")
            if isinstance(path, str) and isinstance(number, int) and number > seen:
                yield number, path


def _named(path: str) -> str:
    """The path as a graph would name it: Spark's log has URIs with percent-encoding, which only the
    rules about `file:` URIs decode.
    """
    return path if path.startswith("file:") else unquote(path)


def _document(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}  # the log of another kind of source
    return found if isinstance(found, dict) else {}
