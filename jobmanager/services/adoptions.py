"""Use case: adopt a plain Spark query, that is, make a savepoint of its checkpoint.

No row is stored before the savepoint is complete. If the server dies between the two, the
savepoint's directory exists and can be used by its path.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

from jobmanager.core.errors import InspectorUnavailable, NotAdoptable
from jobmanager.core.ids import CheckpointNumber, SavepointId
from jobmanager.core.life.records import Savepoint
from jobmanager.core.life.savepoint import SavepointStatus
from jobmanager.core.snapshots import layout
from jobmanager.core.snapshots.manifest import Manifest
from jobmanager.core.snapshots.storage_uri import below
from jobmanager.protocol.inspection import AdoptCheckpoint, Adopted, Refusal
from jobmanager.services import artifacts, jobs, path_checks
from jobmanager.services.clock import Clock
from jobmanager.services.directives import RunSettings
from jobmanager.services.ports.inspection import Inspector
from jobmanager.services.ports.storage import SnapshotStorage
from jobmanager.services.ports.unit_of_work import UnitsOfWork

TIME_FOR_AN_ADOPTION = timedelta(minutes=30)
_UNAVAILABLE = ("not_in_time", "internal")


@dataclass(frozen=True, slots=True)
class AdoptionRequest:
    path: str
    """The query's checkpoint directory."""
    document: Mapping[str, Any]
    parallelism: int | None
    target: str
    """The directory, a file: URI, in which a directory for the savepoint is made."""
    settings: RunSettings


async def adopt(
    units: UnitsOfWork,
    storage: SnapshotStorage,
    inspector: Inspector,
    request: AdoptionRequest,
    clock: Clock,
) -> Savepoint:
    """Raises `InvalidJobGraph`, `PathNotAllowed`, `NotAdoptable`, `InspectorUnavailable`."""
    await path_checks.require_for_snapshot(request.settings.paths, "path", request.path)
    graph, parallelism = jobs.check(request.document, request.parallelism)
    async with units() as uow:
        await artifacts.check(uow, graph)
    savepoint_id = SavepointId(uuid4())
    created_at = clock()
    directory = below(request.target, layout.adopted_savepoint_name(savepoint_id))
    question = AdoptCheckpoint(
        path=request.path,
        graph=dict(request.document),
        parallelism=parallelism,
        data_root=request.settings.data_root,
        savepoint=savepoint_id,
        target=directory,
        storage=request.settings.storage,
        allowed_paths=request.settings.path_roots,
    )
    answer = await inspector.ask(question, TIME_FOR_AN_ADOPTION)
    if isinstance(answer, Refusal) and answer.reason not in _UNAVAILABLE:
        raise NotAdoptable(answer.message)
    if not isinstance(answer, Adopted):
        told = answer.message if isinstance(answer, Refusal) else answer.kind
        raise InspectorUnavailable(f"{request.path} was not adopted: {told}")
    manifest = await storage.read_manifest(directory, layout.MANIFEST)
    savepoint = Savepoint(
        id=savepoint_id,
        job_id=None,
        checkpoint=CheckpointNumber(manifest.checkpoint),
        directory=directory,
        status=SavepointStatus.COMPLETED,
        created_at=created_at,
        completed_at=clock(),
        parallelism=manifest.parallelism,
        max_parallelism=manifest.max_parallelism,
        graph_revision=1,
        parent=f"Spark checkpoint {request.path}, batch {answer.batch}",
        bytes=manifest.bytes,
        regions=_regions(manifest),
        drained=bool(manifest.drained_regions),
    )
    async with units() as uow:
        await uow.savepoints.add(savepoint)
        await uow.commit()
    return savepoint


def _regions(manifest: Manifest) -> dict[str, Any]:
    return {
        name: {
            "batch": region.batch,
            "offsets": dict(region.offsets),
            "watermark": region.watermark.isoformat() if region.watermark else None,
        }
        for name, region in manifest.regions.items()
    }
