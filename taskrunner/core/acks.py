"""Makes the acks of a barrier from its manifest, which is durable by then."""

from collections.abc import Iterator
from typing import assert_never

from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import SubtaskRef
from jobmanager.core.life.checkpoint import BarrierTimes
from jobmanager.core.plan import key_groups
from jobmanager.core.plan.job_plan import SnapshotKind, awaited
from jobmanager.core.snapshots import layout as storage_layout
from jobmanager.core.snapshots.manifest import Manifest
from jobmanager.protocol.messages import BarrierAcks, SubtaskAck


def acks_of(
    graph: JobGraph, manifest: Manifest, new_bytes: int, times: BarrierTimes | None = None
) -> BarrierAcks:
    """All acks for the checkpoint that `manifest` describes: one for each awaited subtask."""
    took = times or BarrierTimes()
    return BarrierAcks(
        job=manifest.job,
        attempt=manifest.attempt,
        checkpoint=manifest.checkpoint,
        manifest=_location(manifest),
        batches={region: one.batch for region, one in manifest.regions.items()},
        bytes=manifest.bytes,
        new_bytes=new_bytes,
        acks=list(_acks(graph, manifest)),
        waited_ms=dict(took.waited_ms),
        snapshot_ms=took.snapshot_ms,
    )


def _location(manifest: Manifest) -> str:
    """The location of the manifest: in the savepoint's own directory, or in the job's."""
    if manifest.savepoint is not None:
        return storage_layout.MANIFEST
    return storage_layout.checkpoint_manifest(manifest.checkpoint)


def _acks(graph: JobGraph, manifest: Manifest) -> Iterator[SubtaskAck]:
    for subtask, kind in awaited(graph, manifest.parallelism).items():
        match kind:
            case SnapshotKind.STATE:
                yield _state(graph, manifest, subtask)
            case SnapshotKind.OFFSETS:
                yield _offsets(manifest, subtask)
            case SnapshotKind.SINK:
                region = manifest.regions[subtask.region]
                yield SubtaskAck(**_name(subtask), kind="sink", version=region.batch)
            case _:
                assert_never(kind)


def _state(graph: JobGraph, manifest: Manifest, subtask: SubtaskRef) -> SubtaskAck:
    layout = graph.vertex(subtask.vertex).state_layout
    groups = key_groups.owned(
        layout, subtask.subtask, manifest.parallelism, manifest.max_parallelism
    )
    pointers = manifest.regions[subtask.region].pointers
    mine = [p for p in pointers if (p.vertex, p.subtask) == (subtask.vertex, subtask.subtask)]
    if not mine:  # no batch yet, so no state
        return SubtaskAck(**_name(subtask), kind="state", key_groups=list(groups))
    return SubtaskAck(
        **_name(subtask),
        kind="state",
        pointer=mine[0].pointer,
        version=mine[0].version,
        bytes=mine[0].bytes,
        key_groups=list(groups),
    )


def _offsets(manifest: Manifest, subtask: SubtaskRef) -> SubtaskAck:
    region = manifest.regions[subtask.region]
    return SubtaskAck(
        **_name(subtask),
        kind="offsets",
        version=region.batch,
        offsets=region.offsets.get(subtask.vertex),
        watermark=region.watermark,
    )


def _name(subtask: SubtaskRef) -> dict[str, str | int]:
    return {"region": subtask.region, "vertex": subtask.vertex, "subtask": subtask.subtask}
