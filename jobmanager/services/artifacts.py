"""Use cases about artifacts: upload, delete, and resolve those that a job graph names."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from jobmanager.core import artifact as artifacts
from jobmanager.core.artifact import Artifact, ReceivedArtifact, UploadLimits
from jobmanager.core.errors import (
    ArtifactInUse,
    ArtifactNamed,
    ArtifactNotFound,
    ArtifactStoreFull,
    ArtifactTooLarge,
    Fault,
    InvalidArtifact,
    InvalidJobGraph,
    PathNotAllowed,
)
from jobmanager.core.graph import function_references
from jobmanager.core.graph.graph_document import MOST_ARTIFACTS
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.module_names import ModuleNames
from jobmanager.core.ids import ArtifactId
from jobmanager.core.snapshots.garbage import (
    Garbage,
    GarbageLimits,
    Judgement,
    judge_unknown_artifact,
)
from jobmanager.files.installed_modules import installed_module
from jobmanager.services import path_checks
from jobmanager.services.directives import RunSettings
from jobmanager.services.ports.artifacts import ArtifactFiles
from jobmanager.services.ports.unit_of_work import UnitOfWork, UnitsOfWork

_REFUSED = (InvalidArtifact, ArtifactTooLarge, ArtifactStoreFull, PathNotAllowed)
_SETTLED = timedelta(hours=1)
"""A file that is younger is not garbage: it may belong to an upload that has no row yet."""


async def upload(
    units: UnitsOfWork,
    files: ArtifactFiles,
    limits: UploadLimits,
    name: str,
    chunks: AsyncIterator[bytes],
    now: datetime,
) -> tuple[Artifact, bool]:
    """Stores an artifact that comes piece by piece, and whether it is new. The same content again
    is the same artifact.

    Raises `InvalidArtifact`, `ArtifactTooLarge`, `ArtifactStoreFull`, `ArtifactNamed`.
    """
    received = await files.receive(name, chunks, limits.file_bytes)
    return await _store(units, files, limits, name, received, now)


async def _store(
    units: UnitsOfWork,
    files: ArtifactFiles,
    limits: UploadLimits,
    name: str,
    received: ReceivedArtifact,
    now: datetime,
) -> tuple[Artifact, bool]:
    """Keeps what was received, if it is sound and there is room. Two uploads at the same time may
    both find the last room.
    """
    try:
        modules = await files.read_modules(name, received)
        async with units() as uow:
            known = await uow.artifacts.hold(received.id)
            if known is None:
                artifacts.check_total(limits, *await uow.artifacts.totals(), received.bytes)
        if known is not None and known.name != name:
            raise ArtifactNamed(
                f"this content is artifact {received.id} already, under the name {known.name}: "
                "use that, or delete it first"
            )
        # also of one that is known: whoever lost the file uploads it again
        await files.keep(received, name)
    finally:
        await files.discard(received)
    async with units() as uow:
        await uow.artifacts.add(Artifact(received.id, name, received.bytes, modules, now))
        stored = await uow.artifacts.get(received.id)
        await uow.commit()
    return stored, known is None


async def delete(units: UnitsOfWork, files: ArtifactFiles, artifact_id: ArtifactId) -> Artifact:
    """Delete an artifact. Raises `ArtifactNotFound`, and `ArtifactInUse` with the jobs that need
    it.
    """
    async with units() as uow:
        found = await uow.artifacts.hold(artifact_id, to_delete=True)
        if found is None:
            raise ArtifactNotFound(f"artifact {artifact_id} not found")
        if users := await uow.artifacts.users(artifact_id):
            named = ", ".join(job.hex for job in users)
            raise ArtifactInUse(f"{found.name} is used by {len(users)} jobs: {named}")
        await uow.artifacts.delete(artifact_id)
        await uow.commit()
    await files.remove(artifact_id)
    return found


async def resolve_artifacts(
    units: UnitsOfWork,
    files: ArtifactFiles,
    document: Mapping[str, Any],
    settings: RunSettings,
    now: datetime,
) -> Mapping[str, Any]:
    """Replace the artifacts in the document by their ids. A name means the artifact that was
    uploaded last under that name; a path means a file on the server, which is stored. Raises
    `InvalidJobGraph`.
    """
    named = document.get("artifacts")
    if not isinstance(named, list) or not all(isinstance(one, str) for one in named):
        return document  # the reader of the document reports what is wrong with it
    found: dict[ArtifactId, Artifact] = {}
    faults: list[Fault] = []
    for one in named[:MOST_ARTIFACTS]:  # more are a fault of the document
        try:
            artifact = await _resolve_artifact(units, files, one, settings, now)
            found[artifact.id] = artifact
        except (ArtifactNotFound, ArtifactNamed, *_REFUSED) as error:
            faults.append(Fault(None, "artifacts", str(error)))
    size, most = sum(one.bytes for one in found.values()), settings.uploads.graph_bytes
    if size > most:
        message = (
            f"together they are {size} bytes, and {most} at most: install large packages where "
            "runners run, or let graphs name more (HEADGATE_MOST_GRAPH_ARTIFACT_BYTES)"
        )
        faults.append(Fault(None, "artifacts", message))
    if faults:
        raise InvalidJobGraph(faults)
    return {**document, "artifacts": list(found)}


async def check(uow: UnitOfWork, graph: JobGraph) -> None:
    """Check that all artifacts and functions which the graph names exist, and keep the artifacts
    from being deleted until the commit. Raises `InvalidJobGraph`.
    """
    faults: list[Fault] = []
    modules: dict[str, ModuleNames] = {}
    for one in graph.artifacts:
        held = await uow.artifacts.hold(ArtifactId(one))
        if held is None:
            faults.append(Fault(None, "artifacts", f"there is no artifact {one}: upload it"))
        else:
            modules = {**held.modules, **modules}
    faults += await asyncio.to_thread(_functions, graph, modules)
    if faults:
        raise InvalidJobGraph(faults)


async def unused(
    units: UnitsOfWork, files: ArtifactFiles, limits: GarbageLimits, *, deletes: bool
) -> Judgement:
    """Find files of artifacts that are not in the database. An artifact that no job uses is not
    garbage: it belongs to its user.
    """
    there = await files.found()
    async with units() as uow:
        known = await uow.artifacts.ids()
    found: list[Garbage] = []
    left: list[Garbage] = []
    for artifact_id, one in there.items():
        if artifact_id in known or one.changed_at > limits.now - _SETTLED:
            continue
        judged = judge_unknown_artifact(one.path, one.bytes, limits)
        found += judged.garbage
        left += judged.left
        if deletes and judged.garbage:
            await files.remove(artifact_id)
    return Judgement(tuple(found), tuple(left), {"artifacts": len(known)})


def _functions(graph: JobGraph, modules: Mapping[str, ModuleNames]) -> Sequence[Fault]:
    @cache
    def find(name: str) -> ModuleNames | None:
        return modules.get(name) or installed_module(name)

    return function_references.faults(graph, find, lambda: sorted(modules))


async def _resolve_artifact(
    units: UnitsOfWork, files: ArtifactFiles, named: str, settings: RunSettings, now: datetime
) -> Artifact:
    async with units() as uow:
        if artifacts.is_id(named):
            return await uow.artifacts.get(ArtifactId(named))
        known = await uow.artifacts.named(named)
    if known is not None:
        return known
    path = Path(settings.data_root) / named
    await path_checks.require_for_graph(settings.paths, repr(named), str(path))
    try:
        received = await files.receive_local(str(path), settings.uploads.file_bytes)
    except (OSError, ValueError) as error:
        raise ArtifactNotFound(
            f"{named!r} is neither the id nor the name of an artifact, nor a file below the "
            f"server's data root: {error}"
        ) from error
    return (await _store(units, files, settings.uploads, path.name, received, now))[0]
