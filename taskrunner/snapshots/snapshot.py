"""Taking a checkpoint or a savepoint: from Spark's directories to a manifest."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

from jobmanager.core.errors import PathNotAllowed
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import (
    AttemptNumber,
    CheckpointNumber,
    JobId,
    RegionId,
    VertexId,
)
from jobmanager.core.paths.allowed_paths import PathRules
from jobmanager.core.plan import spark_order
from jobmanager.core.plan.key_groups import subtasks
from jobmanager.core.plan.regions import query_of
from jobmanager.core.snapshots import layout as storage_layout
from jobmanager.core.snapshots import manifest as manifests
from jobmanager.core.snapshots.manifest import (
    Ancestor,
    Manifest,
    RegionManifest,
    SavepointInfo,
    SnapshotFile,
    StatePointer,
)
from jobmanager.files.discarded import is_discarded
from jobmanager.files.resolved_places import place_fault
from jobmanager.files.storage_port import Storage, StoreFailed
from taskrunner.snapshots import spark_state
from taskrunner.snapshots.fence import Fence
from taskrunner.snapshots.layout import JobLayout
from taskrunner.snapshots.pool import SnapshotPool
from taskrunner.snapshots.savepoint import SavepointDraft
from taskrunner.snapshots.spark_log import SparkLog, moment_of
from taskrunner.snapshots.spark_state import PartitionState
from taskrunner.snapshots.start_files import small_files

_UPLOADS = 3
"""How often a checkpoint is uploaded whose files are deleted meanwhile."""


class CheckpointDiscarded(Exception):
    """The JobManager has given the checkpoint up, and has deleted what was there of it."""


class StateMismatch(Exception):
    """Spark's state is not laid out as the plan says."""


@dataclass(frozen=True, slots=True)
class AttemptContext:
    """The attempt of which snapshots are taken."""

    job: JobId
    attempt: AttemptNumber
    graph: JobGraph
    parallelism: int
    spark_version: str
    document: Mapping[str, Any] = field(default_factory=dict)
    """The graph as it was submitted."""
    ancestors: tuple[Ancestor, ...] = ()
    """The jobs that this one descends from, without itself."""


@dataclass(frozen=True, slots=True)
class Taken:
    manifest: Manifest
    new_bytes: int
    """Bytes that the snapshot added to the pool."""


class Keep(Protocol):
    """Keeps a file, which is `path` in the region's Spark checkpoint directory."""

    def __call__(self, region: RegionId, source: Path, path: str) -> SnapshotFile: ...


class Snapshots:
    """Takes the checkpoints and savepoints of one attempt."""

    def __init__(
        self,
        subject: AttemptContext,
        layout: JobLayout,
        fence: Fence,
        rules: PathRules | None = None,
    ) -> None:
        """`rules`: where savepoints may go; None: anywhere."""
        self._subject = subject
        self._layout = layout
        self._fence = fence
        self._rules = rules

    @cached_property
    def _files(self) -> Storage:
        """The storage, opened when first needed: some drivers take seconds to load."""
        return self._layout.snapshots

    @cached_property
    def _pool(self) -> SnapshotPool:
        return SnapshotPool(self._files)

    def learn(self, manifest: Manifest) -> None:
        """Takes over the checksums of an earlier checkpoint's files in the pool."""
        self._pool.learn(manifest)

    def take(
        self,
        checkpoint: CheckpointNumber,
        directories: Mapping[RegionId, Path],
        at: datetime,
        between_files: Callable[[], None] = lambda: None,
        before_manifest: Callable[[Manifest], None] = lambda manifest: None,
    ) -> Taken:
        """Snapshots the last committed batch of each region, and writes the manifest.

        Everything the manifest names is durable before the manifest is. Files are uploaded without
        the pool lock, so the JobManager may delete older checkpoints meanwhile; a file that was
        there and is deleted with one of them is uploaded again. What `between_files` raises ends
        the upload. `before_manifest` is called before there is a checkpoint that could be restored.
        Raises `Superseded`, `CheckpointDiscarded`, `MissingState`, `StateMismatch` or
        `OSError`; then there is no manifest.
        """
        new_bytes = 0
        for _ in range(_UPLOADS):
            self._fence.check()
            self._pool.begin()
            keep = self._fenced(self._pool.keep, between_files)
            keep_small = self._fenced(self._keep_small(checkpoint), between_files)
            regions = {
                region: self._region(region, directory, keep, keep_small)
                for region, directory in directories.items()
            }
            manifest = self._manifest(checkpoint, at, regions)
            before_manifest(manifest)
            new_bytes += self._pool.new_bytes
            if self._is_published(manifest):
                return Taken(manifest, new_bytes)
        raise StoreFailed(f"{self._files.uri}: files of checkpoint {checkpoint} were deleted again")

    def _fenced(self, keep: "Keep", between_files: Callable[[], None]) -> "Keep":
        """A superseded attempt puts no further file into a pool that is not its own any more."""

        def fenced(region: RegionId, source: Path, path: str) -> SnapshotFile:
            self._fence.check()
            between_files()
            return keep(region, source, path)

        return fenced

    def _is_published(self, manifest: Manifest) -> bool:
        """Writes the manifest; False: a file that the manifest names was deleted meanwhile."""
        checkpoint, work = manifest.checkpoint, self._layout.work
        with work.lock(storage_layout.POOL_LOCK):
            self._fence.check()
            if is_discarded(work, checkpoint):
                self._files.delete_directory(storage_layout.checkpoint_directory(checkpoint))
                raise CheckpointDiscarded(f"checkpoint {checkpoint} was aborted, and discarded")
            try:
                self._files.make_durable(manifest.files())
            except OSError:
                there = self._files.list_files()
                if all(file.location in there for file in manifest.files()):
                    raise
                return False
            self._files.write(
                storage_layout.checkpoint_manifest(checkpoint), manifests.to_json(manifest)
            )
            return True

    def take_savepoint(
        self,
        checkpoint: CheckpointNumber,
        directories: Mapping[RegionId, Path],
        at: datetime,
        savepoint: UUID,
        target: str,
        after_step: Callable[[str], None] = lambda step: None,
        between_files: Callable[[], None] = lambda: None,
        before_manifest: Callable[[Manifest], None] = lambda manifest: None,
    ) -> Taken:
        """The same as `take`, with all files in the new directory `target`, a URI. Raises the
        errors of `take`, and `PathNotAllowed`; then there is no savepoint.
        """
        self._fence.check()
        if self._rules is not None and (fault := place_fault(self._rules.snapshots, target)):
            raise PathNotAllowed(fault)
        draft = SavepointDraft(target, after_step)
        keep = self._fenced(draft.keep, between_files)
        try:
            regions = {
                region: self._region(region, directory, keep, keep)
                for region, directory in directories.items()
            }
            itself = Ancestor(self._subject.job, manifests.batches_by_sink(regions))
            lineage = (*self._subject.ancestors, itself)
            is_drained = any(manifests.is_end_of_time(one.watermark) for one in regions.values())
            info = SavepointInfo(savepoint, self._subject.document, lineage, is_drained)
            manifest = self._manifest(checkpoint, at, regions, info)
            before_manifest(manifest)
            draft.finish(manifest, self._fence.holding)
        except Exception:
            draft.discard()
            raise
        return Taken(manifest, 0)

    def _manifest(
        self,
        checkpoint: CheckpointNumber,
        at: datetime,
        regions: Mapping[RegionId, RegionManifest],
        savepoint: SavepointInfo | None = None,
    ) -> Manifest:
        return Manifest(
            job=self._subject.job,
            checkpoint=checkpoint,
            attempt=self._subject.attempt,
            created_at=at,
            spark_version=self._subject.spark_version,
            parallelism=self._subject.parallelism,
            max_parallelism=self._subject.graph.max_parallelism,
            regions=regions,
            savepoint=savepoint,
        )

    def _region(
        self, region: RegionId, directory: Path, keep_state: Keep, keep_small: Keep
    ) -> RegionManifest:
        log = SparkLog(directory)
        batch = log.last_committed()
        if batch is None:
            return RegionManifest(None, None, {}, (), (), self._sinks(region))
        states = spark_state.state_of(directory, batch)
        kept = {
            path: keep_state(region, path, path.relative_to(directory).as_posix())
            for state in states
            for path in state.files
        }
        small = [
            keep_small(region, path, path.relative_to(directory).as_posix())
            for path in small_files(directory, batch, states)
        ]
        return RegionManifest(
            batch=batch,
            watermark=moment_of(log.offsets(batch).watermark_ms),
            offsets=offsets_by_source(self._subject.graph, region, log, batch),
            files=(*kept.values(), *small),
            pointers=tuple(self._pointers(region, states, kept)),
            sinks=self._sinks(region),
        )

    def _sinks(self, region: RegionId) -> tuple[VertexId, ...]:
        sinks = query_of(self._subject.graph, VertexId(region)).sinks
        return sinks if len(sinks) > 1 else ()

    def _keep_small(self, checkpoint: CheckpointNumber) -> Keep:
        """Keeps a file that is not state: with the checkpoint, or in the pool if that saves
        uploads, because many checkpoints share most of these files.
        """
        if not self._files.links:
            return self._pool.keep

        def keep(region: RegionId, source: Path, path: str) -> SnapshotFile:
            location = storage_layout.checkpoint_file(checkpoint, region, path)
            kept = self._files.keep(source, location)
            return SnapshotFile(path, location, kept.bytes, kept.sha256)

        return keep

    def _pointers(
        self,
        region: RegionId,
        states: list[PartitionState],
        kept: Mapping[Path, SnapshotFile],
    ) -> Iterator[StatePointer]:
        found: dict[tuple[VertexId, int], StatePointer] = {}
        for vertex, state in self._attributed(region, states):
            files = [kept[path] for path in state.files]
            before = found.get((vertex, state.partition))
            size = sum(file.bytes for file in files) + (before.bytes if before else 0)
            pointer = before.pointer if before else files[0].location
            found[vertex, state.partition] = StatePointer(
                vertex, state.partition, state.version, pointer, size
            )
        yield from found.values()

    def _attributed(
        self, region: RegionId, states: list[PartitionState]
    ) -> Iterator[tuple[VertexId, PartitionState]]:
        """Assigns each state to its keyed vertex, and checks the states against the plan."""
        graph = self._subject.graph
        keyed = spark_order.keyed(graph, VertexId(region))
        operators = sorted({state.operator for state in states})
        if operators != list(range(len(keyed))):
            raise StateMismatch(
                f"region {region}: Spark has stateful operators {operators}, "
                f"the plan has {len(keyed)} keyed vertices: {', '.join(keyed) or 'none'}"
            )
        for operator, vertex in enumerate(keyed):
            mine = [state for state in states if state.operator == operator]
            wanted = subtasks(graph.vertex(vertex).state_layout, self._subject.parallelism)
            if [state.partition for state in mine] != list(range(wanted)):
                raise StateMismatch(
                    f"region {region}, vertex {vertex}: Spark has {len(mine)} state partitions, "
                    f"the plan has {wanted}"
                )
            yield from ((vertex, state) for state in mine)


def offsets_by_source(
    graph: JobGraph, region: RegionId, log: SparkLog, batch: int
) -> dict[VertexId, Any]:
    """Spark's offset of each source vertex after `batch`."""
    sources = spark_order.sources(graph, VertexId(region))
    offsets = log.offsets(batch).offsets
    if len(offsets) != len(sources):
        raise StateMismatch(
            f"region {region}: Spark has {len(offsets)} sources, the plan has {len(sources)}"
        )
    return dict(zip(sources, offsets, strict=True))
