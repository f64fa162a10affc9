"""Verifies the Spark checkpoint directory of an attempt that was killed.

Spark does not sync its files: after a power cut the newest files may be empty, truncated or filled
with zeros, under their right names. They are verified against whatever describes them:

- Hadoop writes a CRC-32 of every 512 bytes of `name` to `.name.crc`;
- Spark writes the size of a changelog or snapshot to `<name>.crc`, and a snapshot names its
  shared files with their sizes;
- logs and descriptions are JSON, most of them after a line with a version.

A file that was restored from a checkpoint or savepoint has no Hadoop checksum. It was synced before
its manifest was written, or compared with the manifest when it was fetched.
"""

import json
import re
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from taskrunner.core.restore import StartPoint
from taskrunner.snapshots import spark_state
from taskrunner.snapshots.spark_log import SparkLog
from taskrunner.snapshots.start_files import small_files, source_log_entry

_HADOOP_MAGIC = b"crc\0"
_HADOOP_HEADER = 8
_SUM = 4
_PIECE = 1 << 20
_TAIL = 512
_VERSION = re.compile(r"\0?v\d+")


class DamagedDirectory(Exception):
    """A file of a Spark checkpoint directory is damaged."""


class SparkDirectoryCheck:
    """Verifies the files of a Spark checkpoint directory, each file at most once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._log = SparkLog(directory)
        self._found: dict[Path, str | None] = {}

    def damage(self, point: StartPoint) -> str | None:
        """Why a query cannot start at this point; None: no damage was found."""
        try:
            self.files(point)
        except Exception as error:  # after any error the directory cannot be trusted
            return f"{type(error).__name__}: {error}"
        return None

    def files(self, point: StartPoint) -> list[Path]:
        """All files that a query needs to start at this point. Raises if a file is damaged."""
        log, batch, pending = self._log, point.batch, point.pending
        states = [] if batch is None else spark_state.state_of(self._directory, batch)
        last = batch if pending is None else pending
        ends = [] if last is None else log.offsets(last).offsets
        for name in ("metadata", f"offsets/{last}"):
            self._require(self._directory / name)
        kept = list(dict.fromkeys(path for state in states for path in state.files))
        for path in kept:
            self._require(path)
        for path in small_files(self._directory, batch, states, pending):
            if (fault := self._fault(path)) is None:
                kept.append(path)
            elif not _is_after(path.relative_to(self._directory).parts, ends):
                raise DamagedDirectory(f"{path} {fault}")
        return kept

    def _require(self, path: Path) -> None:
        if fault := self._fault(path):
            raise DamagedDirectory(f"{path} {fault}")

    def _fault(self, path: Path) -> str | None:
        if path not in self._found:
            self._found[path] = _content_fault(path, path.relative_to(self._directory).parts)
        return self._found[path]


def checksum_of(path: Path) -> Path:
    """Where Hadoop keeps the checksum of a file."""
    return path.with_name(f".{path.name}.crc")


def _is_after(inside: tuple[str, ...], ends: Sequence[Any]) -> bool:
    """Whether a file is an entry in the log of a files source that no batch has read yet: without
    the entry, the source finds the same input files again.
    """
    match source_log_entry(inside):
        case (source, entry) if source < len(ends):
            end = ends[source]
            offset = end.get("logOffset") if isinstance(end, dict) else None
            return isinstance(offset, int) and entry > offset
        case _:
            return False


def _content_fault(path: Path, inside: tuple[str, ...]) -> str | None:
    """The damage of a file, as a predicate to its name; None: no damage was found."""
    try:
        size = path.stat().st_size
        if size == 0:
            return "is empty"
        if fault := _checksum_fault(path, size) or _zeros_fault(path, size):
            return fault
        return _kind_fault(path, inside)
    except FileNotFoundError:
        return "is not there"
    except (OSError, ValueError, KeyError, IndexError, zipfile.BadZipFile) as error:
        return f"cannot be read: {type(error).__name__}: {error}"


def _checksum_fault(path: Path, size: int) -> str | None:
    """Compares a file with Hadoop's checksum, if it has one."""
    try:
        sums = checksum_of(path).read_bytes()
    except FileNotFoundError:
        return None
    every = int.from_bytes(sums[len(_HADOOP_MAGIC) : _HADOOP_HEADER], "big")
    if not sums.startswith(_HADOOP_MAGIC) or every == 0:
        return f"has a checksum file {checksum_of(path).name} that is damaged"
    chunks = -(-size // every)
    if len(sums) != _HADOOP_HEADER + _SUM * chunks:
        return f"has {size} bytes, and its checksum {checksum_of(path).name} is of another size"
    piece = max(_PIECE // every, 1) * every
    at = _HADOOP_HEADER
    with path.open("rb") as file:
        while block := memoryview(file.read(piece)):
            found = b"".join(
                zlib.crc32(block[i : i + every]).to_bytes(_SUM, "big")
                for i in range(0, len(block), every)
            )
            if found != sums[at : at + len(found)]:
                return f"was altered: its checksum is not that of {checksum_of(path).name}"
            at += len(found)
    return None


def _zeros_fault(path: Path, size: int) -> str | None:
    """After a crash, some file systems have the size of a file and not its content."""
    with path.open("rb") as file:
        file.seek(max(size - _TAIL, 0))
        return None if any(file.read()) else "ends in zeros"


def _kind_fault(path: Path, inside: tuple[str, ...]) -> str | None:
    match inside:
        case ("metadata",):
            return None if "id" in json.loads(path.read_bytes()) else "has no id"
        case ("offsets", name):
            SparkLog(path.parents[1]).offsets(int(name))
        case ("commits", name):
            SparkLog(path.parents[1]).commit(int(name))
        case _ if path.suffix == ".zip":
            return _size_fault(path) or _zip_fault(path)
        case _ if path.suffix == ".changelog":
            return _size_fault(path)
        case _ if path.suffix == ".json" or spark_state.is_state_checksum(path):
            json.loads(path.read_bytes())
        case _ if not spark_state.is_state_file(path):
            _check_description(path)
    return None


def _size_fault(path: Path) -> str | None:
    """Compares the size of a state file with the size that Spark recorded, if it did."""
    try:
        wanted = json.loads(spark_state.checksum_of(path).read_bytes())["mainFileSize"]
    except FileNotFoundError:
        return None
    size = path.stat().st_size
    return None if size == wanted else f"has {size} bytes instead of {wanted}"


def _zip_fault(path: Path) -> str | None:
    with zipfile.ZipFile(path) as archive:
        broken = archive.testzip()
    return f"is damaged in {broken}" if broken else None


def _check_description(path: Path) -> None:
    """Parses a source's log or an operator's description, if it is text with a version line.
    Raises `ValueError`.
    """
    try:
        first, *lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        return
    if _VERSION.fullmatch(first):
        if not lines:
            raise ValueError("there is nothing after its version")
        for line in lines:
            if line.startswith(("{", "[")):
                json.loads(line)
