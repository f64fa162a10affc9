"""Spark's own logs in a checkpoint directory: `offsets` (begun) and `commits` (done)."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jobmanager.core.snapshots.storage_uri import local_path
from taskrunner.core.end_of_time import END_OF_TIME_MS
from taskrunner.snapshots import durable

_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


class UnreadableSparkLog(Exception):
    """A file of Spark's log has an unknown format."""


@dataclass(frozen=True, slots=True)
class BatchOffsets:
    """The offsets and settings that a batch was planned with."""

    version: str
    metadata: Mapping[str, Any]
    offsets: Sequence[Any]
    """One for each source, in Spark's order; None: the source had no data yet."""

    @property
    def watermark_ms(self) -> int:
        return int(self.metadata.get("batchWatermarkMs", 0))


@dataclass(frozen=True, slots=True)
class BatchCommit:
    next_watermark_ms: int
    state_ids: Mapping[int, Sequence[Sequence[str]]]
    """Stateful operator to the ids of its state files: a list for each partition, an id for each
    store."""


class SparkLog:
    """The logs of one Spark checkpoint directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def last_begun(self) -> int | None:
        return max(self.begun(), default=None)

    def last_committed(self) -> int | None:
        return max(self.committed(), default=None)

    def begun(self) -> list[int]:
        return _batches(self.directory / "offsets")

    def committed(self) -> list[int]:
        return _batches(self.directory / "commits")

    def offsets(self, batch: int) -> BatchOffsets:
        path = self.directory / "offsets" / str(batch)
        version, lines = _entry(path, "v1")
        sources = [None if line == "-" else _parsed(path, line) for line in lines[1:]]
        return BatchOffsets(version, _parsed(path, lines[0]), sources)

    def commit(self, batch: int) -> BatchCommit:
        path = self.directory / "commits" / str(batch)
        _, lines = _entry(path, "v1", "v2")
        document = _parsed(path, lines[0])
        ids = document.get("stateUniqueIds") or {}
        return BatchCommit(
            next_watermark_ms=int(document.get("nextBatchWatermarkMs", 0)),
            state_ids={int(operator): partitions for operator, partitions in ids.items()},
        )

    def begin_last_batch(self, *, clocks_too: bool = False) -> int:
        """Begins a batch without input whose watermark is the end of time; if `clocks_too`, its
        processing time is the end of time as well.

        Spark runs a batch that was begun and not committed when the query starts, so
        every open window is emitted. The query must be stopped, with nothing pending.
        """
        last = self.last_committed()
        if last is None or last != self.last_begun():
            raise UnreadableSparkLog(f"{self.directory} has a batch under way")
        offsets = self.offsets(last)
        metadata = {**offsets.metadata, "batchWatermarkMs": END_OF_TIME_MS}
        if clocks_too:
            metadata["batchTimestampMs"] = END_OF_TIME_MS
        self._write_offsets(last + 1, replace(offsets, metadata=metadata))
        return last + 1

    def set_shuffle_partitions(self, number: int) -> None:
        """Changes the number of shuffle partitions of future batches: Spark uses the number of the
        last batch, whatever the session says. Not for state that is hashed over partitions.
        """
        last = self.last_begun()
        if last is None:
            return
        offsets = self.offsets(last)
        settings = {**offsets.metadata.get("conf", {}), _SHUFFLE_PARTITIONS: str(number)}
        self._write_offsets(last, replace(offsets, metadata={**offsets.metadata, "conf": settings}))

    def set_state_ids(self, batch: int, operator: int, ids: Sequence[Sequence[str]]) -> None:
        """Replaces the ids of an operator's state files after `batch`."""
        path = self.directory / "commits" / str(batch)
        version, line = path.read_text(encoding="utf-8").splitlines()
        document = json.loads(line)
        document["stateUniqueIds"][str(operator)] = ids
        _replace(path, [version, _compact(document)])

    def _write_offsets(self, batch: int, offsets: BatchOffsets) -> None:
        lines = [offsets.version, _compact(offsets.metadata)]
        lines += ["-" if one is None else _compact(one) for one in offsets.offsets]
        _replace(self.directory / "offsets" / str(batch), lines)


def moment_of(watermark_ms: int) -> datetime | None:
    """A watermark as a time; None: there is none yet."""
    return datetime.fromtimestamp(watermark_ms / 1000, UTC) if watermark_ms > 0 else None


def _batches(directory: Path) -> list[int]:
    try:
        return sorted(int(path.name) for path in directory.iterdir() if path.name.isdigit())
    except FileNotFoundError:
        return []


def _entry(path: Path, *versions: str) -> tuple[str, list[str]]:
    """The version of a file of the log, and the lines after it, of which there is at least one."""
    version, *lines = path.read_bytes().decode(errors="replace").splitlines() or [""]
    if version not in versions or not lines:
        raise UnreadableSparkLog(
            f"{path} ({path.stat().st_size} bytes) has version {version[:10]!r}, not "
            f"{' or '.join(versions)}, or nothing after it"
        )
    return version, lines


def _parsed(path: Path, line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError as error:
        raise UnreadableSparkLog(f"{path} is not JSON: {error}") from None


def _replace(path: Path, lines: Sequence[str]) -> None:
    """Replaces a log file and deletes Hadoop's checksum of the old content."""
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    durable.write(path, "\n".join(lines))


def _compact(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"))


def bytes_of_entries(source_log: Path, first: int, last: int) -> int | None:
    """The size of the files that entries `first` to `last` of a `files` source's log name; None: an
    entry is in a compacted file, which names all files that were ever read.
    """
    size = 0
    for number in range(first, last + 1):
        entry = source_log / str(number)
        if not entry.exists():
            return None
        files = named_files(entry.read_text(encoding="utf-8"))
        size += sum(local_path(uri).stat().st_size for uri in files)
    return size


def named_files(source_log: str) -> Iterator[str]:
    """The files that a file of a `files` source's log names; none: it is another kind of log."""
    for line in source_log.splitlines()[1:]:
        try:
            document = json.loads(line)
        except ValueError:
            return
        if isinstance(document, dict) and isinstance(document.get("path"), str):
            yield document["path"]
