"""The manifest of a checkpoint: it names everything that the checkpoint consists of.

A manifest is written last, so a checkpoint with a manifest is complete. It names every file that is
needed to rebuild the Spark checkpoint directory of each region, with its location in the job's
directory and its checksum. The JobManager uses manifests to verify checkpoints and to count
references to files; a runner uses them to restore. No database is needed.

A savepoint's manifest is in the savepoint's own directory, with all its files, and also has the job
graph and the lineage.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId, RegionId, VertexId
from jobmanager.core.snapshots import layout

FORMAT_VERSION = 1
END_OF_TIME = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""Where a drain takes the watermark: after every event."""


class InvalidManifest(ValueError):
    """The text is not a manifest that this version can read."""


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    path: str
    """Inside the region's Spark checkpoint directory."""
    location: str
    """Inside the job's directory in storage; of a savepoint, inside its own directory."""
    bytes: int
    sha256: str

    @property
    def is_pooled(self) -> bool:
        """Whether checkpoints share the file: it is deleted only when no manifest names it."""
        return layout.is_pooled(self.location)


@dataclass(frozen=True, slots=True)
class StatePointer:
    """Where the keyed state of a subtask is."""

    vertex: VertexId
    subtask: int
    version: int
    """Spark's state version."""
    pointer: str
    """The `location` of its newest state file."""
    bytes: int
    """Size of all state files that the subtask needs."""


@dataclass(frozen=True, slots=True)
class RegionManifest:
    batch: int | None
    """The batch whose commit was the barrier; None: the region had committed none yet."""
    watermark: datetime | None
    offsets: Mapping[VertexId, Any]
    """Spark's offset of each source vertex."""
    files: tuple[SnapshotFile, ...]
    pointers: tuple[StatePointer, ...]
    sinks: tuple[VertexId, ...] = ()
    """The sinks, if there are several; otherwise the region has the name of its sink."""


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A job in the lineage of a savepoint."""

    job: JobId
    batches: Mapping[VertexId, int | None]
    """By sink, the last batch that is part of the state; None: there was none yet."""


@dataclass(frozen=True, slots=True)
class SavepointInfo:
    """What a savepoint has in addition to a checkpoint: enough to start a job from it anywhere."""

    id: UUID
    graph: Mapping[str, Any]
    """The job-graph document as it was submitted."""
    lineage: tuple[Ancestor, ...]
    """The lineage, oldest first; the job that wrote the savepoint is the last."""
    is_drained: bool = False
    """It says of itself that it is drained. Those of older versions do not say."""


@dataclass(frozen=True, slots=True)
class Manifest:
    job: JobId
    checkpoint: CheckpointNumber
    attempt: AttemptNumber
    created_at: datetime
    spark_version: str
    parallelism: int
    max_parallelism: int
    regions: Mapping[RegionId, RegionManifest]
    savepoint: SavepointInfo | None = None
    """None: it is a checkpoint."""

    def files(self) -> Iterator[SnapshotFile]:
        """Yield every file of the checkpoint."""
        for region in self.regions.values():
            yield from region.files

    @property
    def drained_regions(self) -> tuple[RegionId, ...]:
        """The regions that were drained: for whatever comes after, time is over."""
        return tuple(name for name, one in self.regions.items() if is_end_of_time(one.watermark))

    @property
    def lineage(self) -> tuple[Ancestor, ...]:
        """Return the lineage as far as the manifest has it; the job that wrote it is the last."""
        if self.savepoint is not None:
            return self.savepoint.lineage
        return (Ancestor(self.job, batches_by_sink(self.regions)),)

    @property
    def bytes(self) -> int:
        return sum({file.location: file.bytes for file in self.files()}.values())


def is_end_of_time(watermark: datetime | None) -> bool:
    return watermark is not None and watermark >= END_OF_TIME


def batches_by_sink(regions: Mapping[RegionId, RegionManifest]) -> dict[VertexId, int | None]:
    """Return the last batch of each sink."""
    return {
        sink: region.batch
        for name, region in regions.items()
        for sink in region.sinks or (VertexId(name),)
    }


def to_json(manifest: Manifest) -> str:
    document: dict[str, Any] = {
        "format": FORMAT_VERSION,
        "job": str(manifest.job),
        "checkpoint": manifest.checkpoint,
        "attempt": manifest.attempt,
        "created_at": manifest.created_at.isoformat(),
        "spark_version": manifest.spark_version,
        "parallelism": manifest.parallelism,
        "max_parallelism": manifest.max_parallelism,
        "regions": {name: _region_document(one) for name, one in manifest.regions.items()},
    }
    if manifest.savepoint is not None:
        document["savepoint"] = {
            "id": str(manifest.savepoint.id),
            "graph": dict(manifest.savepoint.graph),
            "lineage": lineage_document(manifest.savepoint.lineage),
            **({"drained": True} if manifest.savepoint.is_drained else {}),
        }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def from_json(text: str) -> Manifest:
    """Parse a manifest. Raises `InvalidManifest` with the field that is wrong."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InvalidManifest(f"the manifest is not JSON: {error}") from None
    fields = _Fields(document, "manifest")
    version = fields.integer("format")
    if version != FORMAT_VERSION:
        raise InvalidManifest(
            f"the manifest has format {version}; this version of Headgate reads {FORMAT_VERSION}"
        )
    manifest = Manifest(
        job=JobId(fields.uuid("job")),
        checkpoint=CheckpointNumber(fields.integer("checkpoint", least=1)),
        attempt=AttemptNumber(fields.integer("attempt", least=1)),
        created_at=fields.moment("created_at"),
        spark_version=fields.text("spark_version"),
        parallelism=fields.integer("parallelism", least=1),
        max_parallelism=fields.integer("max_parallelism", least=1),
        regions={
            RegionId(name): _region(one, f"regions.{name}")
            for name, one in fields.mapping("regions").items()
        },
        savepoint=_savepoint(fields.mapping("savepoint")) if fields.has("savepoint") else None,
    )
    fields.done()
    return manifest


def lineage_document(lineage: Sequence[Ancestor]) -> list[dict[str, Any]]:
    return [{"job": str(one.job), "batches": dict(one.batches)} for one in lineage]


def lineage_of(document: Any, where: str = "lineage") -> tuple[Ancestor, ...]:
    """Parse the lineage that `lineage_document` wrote. Raises `InvalidManifest`."""
    if not isinstance(document, list):
        raise InvalidManifest(f"{where}: {document!r} is not a list")
    return tuple(_ancestor(one, f"{where}[{i}]") for i, one in enumerate(document))


def _savepoint(document: Any) -> SavepointInfo:
    fields = _Fields(document, "savepoint")
    info = SavepointInfo(
        id=fields.uuid("id"),
        graph=fields.mapping("graph"),
        lineage=lineage_of(fields.items("lineage"), "savepoint.lineage"),
        is_drained=fields.flag("drained"),
    )
    fields.done()
    return info


def _ancestor(document: Any, where: str) -> Ancestor:
    fields = _Fields(document, where)
    job = JobId(fields.uuid("job"))
    batches = _Fields(fields.mapping("batches"), f"{where}.batches")
    found = {VertexId(name): batches.optional_integer(name) for name in batches.names()}
    fields.done()
    return Ancestor(job, found)


def _region_document(region: RegionManifest) -> dict[str, Any]:
    return {
        "batch": region.batch,
        "watermark": region.watermark.isoformat() if region.watermark else None,
        "offsets": dict(region.offsets),
        "files": [
            {
                "path": file.path,
                "location": file.location,
                "bytes": file.bytes,
                "sha256": file.sha256,
            }
            for file in region.files
        ],
        "pointers": [
            {
                "vertex": one.vertex,
                "subtask": one.subtask,
                "version": one.version,
                "pointer": one.pointer,
                "bytes": one.bytes,
            }
            for one in region.pointers
        ],
        **({"sinks": list(region.sinks)} if region.sinks else {}),
    }


def _region(document: Any, where: str) -> RegionManifest:
    fields = _Fields(document, where)
    region = RegionManifest(
        batch=fields.optional_integer("batch"),
        watermark=fields.optional_moment("watermark"),
        offsets={VertexId(name): one for name, one in fields.mapping("offsets").items()},
        files=tuple(
            _file(one, f"{where}.files[{i}]") for i, one in enumerate(fields.items("files"))
        ),
        pointers=tuple(
            _pointer(one, f"{where}.pointers[{i}]")
            for i, one in enumerate(fields.items("pointers"))
        ),
        sinks=tuple(VertexId(str(one)) for one in fields.items("sinks"))
        if fields.has("sinks")
        else (),
    )
    fields.done()
    return region


def _file(document: Any, where: str) -> SnapshotFile:
    fields = _Fields(document, where)
    file = SnapshotFile(
        path=fields.inner_path("path"),
        location=fields.inner_path("location"),
        bytes=fields.integer("bytes"),
        sha256=fields.text("sha256"),
    )
    fields.done()
    return file


def _pointer(document: Any, where: str) -> StatePointer:
    fields = _Fields(document, where)
    pointer = StatePointer(
        vertex=VertexId(fields.text("vertex")),
        subtask=fields.integer("subtask"),
        version=fields.integer("version"),
        pointer=fields.inner_path("pointer"),
        bytes=fields.integer("bytes"),
    )
    fields.done()
    return pointer


class _Fields:
    """Reads the fields of one object of the document, each once."""

    def __init__(self, document: Any, where: str) -> None:
        if not isinstance(document, dict):
            raise InvalidManifest(f"{where}: {document!r} is not an object")
        self._left = dict(document)
        self._where = where

    def done(self) -> None:
        if self._left:
            raise InvalidManifest(f"{self._where}: unknown field {next(iter(self._left))!r}")

    def names(self) -> list[str]:
        return list(self._left)

    def has(self, name: str) -> bool:
        return name in self._left

    def integer(self, name: str, least: int = 0) -> int:
        value = self._take(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self._wrong(name, value, f"an integer of at least {least}")
        return value

    def optional_integer(self, name: str) -> int | None:
        return None if self._is_null(name) else self.integer(name)

    def flag(self, name: str) -> bool:
        """False where it is missing."""
        if not self.has(name):
            return False
        value = self._take(name)
        if not isinstance(value, bool):
            raise self._wrong(name, value, "true or false")
        return value

    def text(self, name: str) -> str:
        value = self._take(name)
        if not isinstance(value, str) or not value:
            raise self._wrong(name, value, "a text")
        return value

    def inner_path(self, name: str) -> str:
        """Read a relative path that does not lead out of its directory."""
        value = self.text(name)
        path = PurePosixPath(value)
        if path.is_absolute() or ".." in path.parts:
            raise self._wrong(name, value, "a path inside its directory")
        return value

    def uuid(self, name: str) -> UUID:
        value = self.text(name)
        try:
            return UUID(value)
        except ValueError:
            raise self._wrong(name, value, "a UUID") from None

    def moment(self, name: str) -> datetime:
        value = self.text(name)
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise self._wrong(name, value, "an ISO 8601 time") from None
        if moment.tzinfo is None:
            raise self._wrong(name, value, "a time with its offset from UTC")
        return moment

    def optional_moment(self, name: str) -> datetime | None:
        return None if self._is_null(name) else self.moment(name)

    def mapping(self, name: str) -> dict[str, Any]:
        value = self._take(name)
        if not isinstance(value, dict):
            raise self._wrong(name, value, "an object")
        return value

    def items(self, name: str) -> list[Any]:
        value = self._take(name)
        if not isinstance(value, list):
            raise self._wrong(name, value, "a list")
        return value

    def _is_null(self, name: str) -> bool:
        if name in self._left and self._left[name] is None:
            del self._left[name]
            return True
        return False

    def _take(self, name: str) -> Any:
        if name not in self._left:
            raise InvalidManifest(f"{self._where}.{name}: missing")
        return self._left.pop(name)

    def _wrong(self, name: str, value: Any, wanted: str) -> InvalidManifest:
        return InvalidManifest(f"{self._where}.{name}: {value!r} is not {wanted}")
