"""Copies the Spark checkpoint directory of a plain query and converts the copy to Headgate's form.

Headgate's directories have RocksDB state whose files the commit log names (checkpoint format 2),
in as many partitions as the job has subtasks. The original may be in use: it is only read, and
its last committed batch counts.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from taskrunner.snapshots import durable, state_archives
from taskrunner.snapshots.rewritable_state import rewrite_obstacle
from taskrunner.snapshots.spark_log import BatchOffsets, SparkLog, named_files

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_HDFS_BACKED = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
_TRIES = 3


class ForeignCheckpointRefused(Exception):
    """The checkpoint cannot be made into a savepoint; the message says why."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """A copy of the checkpoint. The copy may be changed, the original never is."""

    directory: Path
    batch: int
    offsets: BatchOffsets

    @property
    def provider(self) -> str:
        """The provider class of the state store; older Sparks have only one and do not name it."""
        return str(self._settings.get(_PROVIDER, _HDFS_BACKED))

    @property
    def partitions(self) -> int | None:
        found = self._settings.get(_SHUFFLE_PARTITIONS)
        return int(found) if found is not None else None

    @property
    def has_state(self) -> bool:
        return bool(self.operators)

    @property
    def operators(self) -> list[int]:
        """The stateful operators, by number."""
        names = [path.name for path in (self.directory / "state").glob("*/")]
        return sorted(int(name) for name in names if name.isdigit())

    @property
    def has_state_ids(self) -> bool:
        """Whether the commit log names the state files."""
        ids = SparkLog(self.directory).commit(self.batch).state_ids
        return sorted(ids) == self.operators

    @property
    def rewrite_obstacle(self) -> str | None:
        """Why its state cannot be rewritten."""
        return rewrite_obstacle(self.directory, self._settings)

    @property
    def watermark_ms(self) -> int:
        return SparkLog(self.directory).commit(self.batch).next_watermark_ms

    def files_read(self) -> dict[int, str]:
        """Source to one of the files that it has read, for sources that read files."""
        found: dict[int, str] = {}
        for number in range(len(self.offsets.offsets)):
            for log in sorted((self.directory / "sources" / str(number)).glob("*")):
                path = _a_path(log)
                if path is not None:
                    found.setdefault(number, path)
        return found

    @property
    def _settings(self) -> Mapping[str, Any]:
        settings: Mapping[str, Any] = self.offsets.metadata.get("conf", {})
        return settings


def copy_foreign(source: Path, target: Path) -> Foreign:
    """Copies a checkpoint directory. Raises `ForeignCheckpointRefused`."""
    missing = [name for name in ("metadata", "offsets", "commits") if not (source / name).exists()]
    if missing:
        raise ForeignCheckpointRefused(
            f"{source} is no Spark checkpoint directory: it has no {', '.join(missing)}"
        )
    for _ in range(_TRIES):
        batch = SparkLog(source).last_committed()
        if batch is None:
            raise ForeignCheckpointRefused(
                f"{source} has no committed batch: there is no state to continue from"
            )
        try:
            for path in _visible_files(source):
                inside = path.relative_to(source)
                if path.is_symlink():
                    raise ForeignCheckpointRefused(
                        f"{inside} is a symbolic link: copy the checkpoint with its files"
                    )
                if not _is_after(inside.parts, batch):
                    durable.link_or_copy(path, target / inside)
                    _check_archive(target / inside, inside.as_posix())
            return Foreign(target, batch, SparkLog(target).offsets(batch))
        except FileNotFoundError:  # the query is running, and deletes old files
            shutil.rmtree(target, ignore_errors=True)
    raise ForeignCheckpointRefused(
        f"{source} changes faster than it can be copied: stop its query first"
    )


def _check_archive(copy: Path, inside: str) -> None:
    if state_archives.is_archive(inside) and (
        fault := state_archives.archive_fault(copy.read_bytes())
    ):
        raise ForeignCheckpointRefused(f"{inside} {fault}")


def pretend_ours(foreign: Foreign) -> None:
    """Makes the copy say that it has RocksDB state in checkpoint format 2.

    Spark's rewriter of state reads only that; for other state the reader needs the real
    settings.
    """
    log = foreign.directory
    _write_offsets(log, foreign.batch, foreign.offsets, {_PROVIDER: ROCKSDB})
    if not foreign.has_state_ids:
        write_commit(log, foreign.batch, foreign.watermark_ms, None)


def begin_rewrite(foreign: Foreign, target: Path, partitions: int) -> None:
    """Makes a directory with everything but state, for this number of state partitions."""
    for path in _visible_files(foreign.directory):
        inside = path.relative_to(foreign.directory)
        match inside.parts:
            case ("offsets" | "commits", _):
                continue
            case ("state", _, partition, *rest) if partition.isdigit() and "_metadata" not in rest:
                continue
            case _:
                durable.link_or_copy(path, target / inside)
    log = SparkLog(foreign.directory)
    for batch in (foreign.batch - 1, foreign.batch):
        if batch in log.begun():
            changed = {_PROVIDER: ROCKSDB, _SHUFFLE_PARTITIONS: str(partitions)}
            _write_offsets(target, batch, log.offsets(batch), changed)


def write_commit(
    directory: Path, batch: int, watermark_ms: int, ids: Mapping[str, Sequence[Any]] | None
) -> None:
    """Commits a batch in checkpoint format 2."""
    document: dict[str, Any] = {"nextBatchWatermarkMs": watermark_ms}
    if ids is not None:
        document["stateUniqueIds"] = dict(ids)
    durable.write(directory / "commits" / str(batch), f"v2\n{_compact(document)}")


def _write_offsets(
    directory: Path, batch: int, offsets: BatchOffsets, changed: Mapping[str, str]
) -> None:
    settings = {**offsets.metadata.get("conf", {}), **changed}
    lines = [offsets.version, _compact({**offsets.metadata, "conf": settings})]
    lines += ["-" if one is None else _compact(one) for one in offsets.offsets]
    durable.write(directory / "offsets" / str(batch), "\n".join(lines))


def _is_after(inside: tuple[str, ...], batch: int) -> bool:
    """Whether the file belongs to a batch that is not committed."""
    match inside:
        case ("offsets" | "commits", name):
            return not name.isdigit() or int(name) > batch
        case _:
            return False


def _visible_files(directory: Path) -> Iterator[Path]:
    """All files except hidden ones: checksums, which would not match the changed files."""
    for path in sorted(directory.rglob("*")):
        inside = path.relative_to(directory)
        if path.is_file() and not any(part.startswith(".") for part in inside.parts):
            yield path


def _a_path(log: Path) -> str | None:
    """The path of an input file named in a source's log; None: it is another kind of log."""
    try:
        return next(named_files(log.read_text(encoding="utf-8")), None)
    except (OSError, ValueError):
        return None


def _compact(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"))
