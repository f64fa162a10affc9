"""Finds the files that make up the keyed state of a Spark checkpoint directory at one batch.

Checkpoint format 2 (seen in Spark 4.3): state after batch b has version b + 1. For
each partition and store it is the newest snapshot `<version>_<id>.zip` at or below
that version, the shared `SSTs/*.sst` files the snapshot names, and every later
`<version>_<id>.changelog`. The ids are in the commit log, so a file of a failed try of
the same batch is not used.

A repartition is a batch that writes a snapshot of every partition. Files from before it
have another number of partitions, and are no part of the state after it.
"""

import json
import re
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from taskrunner.snapshots import durable
from taskrunner.snapshots.spark_log import SparkLog

_STATE_FILE = re.compile(r"(?P<version>\d+)_(?P<id>[0-9a-f-]{36})\.(?P<kind>zip|changelog)")
_CHECKSUM = ".crc"


class MissingState(Exception):
    """A state file that Spark's commit log names does not exist, or is incomplete."""


class ScatteredState(Exception):
    """An operator without a key has state in more than one partition."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The state of one partition of one stateful operator."""

    operator: int
    partition: int
    version: int
    files: tuple[Path, ...]
    """All files that are needed to load the state; the newest file first."""


def state_of(directory: Path, batch: int) -> list[PartitionState]:
    """The state files after `batch`. Raises `MissingState` if a file is missing."""
    log = SparkLog(directory)
    ids = _ids_by_version(log, batch)
    return [
        _partition(directory, operator, partition, batch + 1, ids)
        for operator, partitions in sorted(log.commit(batch).state_ids.items())
        for partition in range(len(partitions))
    ]


def gather(directory: Path, batch: int, operator: int) -> None:
    """Moves the state of an operator without a key to partition 0, after a repartition.

    Spark's repartition hashes the empty key like any other key, but its query reads partition 0,
    and would start with empty state there.
    """
    mine = [state for state in state_of(directory, batch) if state.operator == operator]
    filled = [state for state in mine if any(path.parent.name == "SSTs" for path in state.files)]
    if len(filled) > 1:
        raise ScatteredState(
            f"operator {operator} in {directory} has state in {len(filled)} partitions"
        )
    source = filled[0] if filled else mine[0]
    log = SparkLog(directory)
    ids = log.commit(batch).state_ids[operator][source.partition]
    home = directory / "state" / str(operator)
    if source.partition != 0:
        for path in source.files:
            inside = path.relative_to(home / str(source.partition))
            durable.link_or_copy(path, home / "0" / inside)
    log.set_state_ids(batch, operator, [ids])
    for state in mine[1:]:
        shutil.rmtree(home / str(state.partition))


def oldest_version(states: Sequence[PartitionState], otherwise: int) -> int:
    """The oldest version among the state files: later commits name all of them."""
    versions = [_version(path) for state in states for path in state.files]
    return min((version for version in versions if version is not None), default=otherwise)


def is_state_file(path: Path) -> bool:
    """Whether a file below `state/` holds keyed state, and not metadata."""
    name = path.name.removesuffix(_CHECKSUM)
    return path.parent.name == "SSTs" or _STATE_FILE.fullmatch(name) is not None


def is_state_checksum(path: Path) -> bool:
    """Whether a file has the size and checksum of a state file, as JSON, which Spark writes."""
    name = path.name.removesuffix(_CHECKSUM)
    return name != path.name and _STATE_FILE.fullmatch(name) is not None


def checksum_of(path: Path) -> Path:
    """The file in which Spark records the size and the checksum of a state file."""
    return path.with_name(path.name + _CHECKSUM)


Ids = Mapping[int, Mapping[int, Sequence[Sequence[str]]]]
"""State version to operator to partition to ids."""


def _ids_by_version(log: SparkLog, batch: int) -> Ids:
    ids = {}
    for one in log.committed():
        with suppress(FileNotFoundError):  # Spark deletes old commits while we read
            if one <= batch:
                ids[one + 1] = log.commit(one).state_ids
    return ids


def _partition(
    directory: Path, operator: int, partition: int, version: int, ids: Ids
) -> PartitionState:
    home = directory / "state" / str(operator) / str(partition)
    files: list[Path] = []
    partitions = len(ids[version][operator])
    alike = [v for v in ids if len(ids[v].get(operator, ())) == partitions]
    for store, state_id in enumerate(ids[version][operator][partition]):
        place = _store_directory(home, version, state_id)
        chain = {v: ids[v][operator][partition][store] for v in alike}
        files += _store_files(place, version, chain)
    return PartitionState(operator, partition, version, tuple(files))


def _store_directory(home: Path, version: int, state_id: str) -> Path:
    """A partition has one store, or several in directories of their own (joins)."""
    candidates = [home, *(p for p in sorted(home.glob("*/")) if p.name not in _NOT_STORES)]
    for place in candidates:
        if any((place / f"{version}_{state_id}{kind}").exists() for kind in (".zip", ".changelog")):
            return place
    raise MissingState(f"state version {version} with id {state_id} is not in {home}")


_NOT_STORES = ("SSTs", "_metadata")


def _store_files(place: Path, version: int, chain: Mapping[int, str]) -> Iterator[Path]:
    """The store's files, the newest first."""
    while version > 0:
        state_id = chain.get(version) or _only_id(place, version)
        stem = place / f"{version}_{state_id}"
        snapshot = stem.with_name(stem.name + ".zip")
        if snapshot.exists():
            yield from _with_checksum(snapshot)
            yield from _shared_files(snapshot)
            return
        changelog = stem.with_name(stem.name + ".changelog")
        if not changelog.exists():
            raise MissingState(f"{changelog} is named by the commit log and is not there")
        yield from _with_checksum(changelog)
        version -= 1


def _only_id(place: Path, version: int) -> str:
    """The id of a version whose commit Spark has already deleted, if only one file has it."""
    found = {m["id"] for p in place.iterdir() if (m := _STATE_FILE.fullmatch(p.name))
             and int(m["version"]) == version}  # fmt: skip
    if len(found) != 1:
        raise MissingState(f"{place}: {len(found)} candidates for state version {version}")
    return found.pop()


def _shared_files(snapshot: Path) -> Iterator[Path]:
    try:
        with zipfile.ZipFile(snapshot) as archive:
            _, _, text = archive.read("metadata").decode().partition("\n")
        document = json.loads(text)
    except (zipfile.BadZipFile, KeyError, ValueError) as error:
        raise MissingState(f"{snapshot} is no whole snapshot: {error}") from None
    for kind, directory in (("sstFiles", "SSTs"), ("logFiles", "logs")):
        for one in document.get(kind) or []:
            name = one.get("dfsSstFileName") or one.get("dfsLogFileName")
            shared = snapshot.parent / directory / name
            if not shared.exists():
                raise MissingState(f"{shared} is named by {snapshot.name} and is not there")
            size, wanted = shared.stat().st_size, one.get("sizeBytes")
            if wanted is not None and size != wanted:
                raise MissingState(f"{shared} has {size} bytes, and {snapshot.name} says {wanted}")
            yield shared


def _with_checksum(path: Path) -> Iterator[Path]:
    yield path
    checksum = checksum_of(path)
    if checksum.exists():
        yield checksum


def _version(path: Path) -> int | None:
    match = _STATE_FILE.fullmatch(path.name)
    return int(match["version"]) if match else None
