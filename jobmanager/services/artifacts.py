"""Use cases about artifacts: upload, delete, and resolve those that a job graph names."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from jobmanager.core import artifact as artifacts
from jobmanager.core.artifact import MOST_BYTES, Artifact
from jobmanager.core.errors import (
    ArtifactInUse,
    ArtifactNamed,
    ArtifactNotFound,
    Fault,
    InvalidArtifact,
    InvalidJobGraph,
)
from jobmanager.core.graph import function_references
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
from jobmanager.services.ports.artifacts import ArtifactFiles
from jobmanager.services.ports.unit_of_work import UnitOfWork, UnitsOfWork

_SETTLED = timedelta(hours=1)
"""A file that is younger is not garbage: it may belong to an upload that has no row yet."""


async def upload(
    units: UnitsOfWork, files: ArtifactFiles, name: str, content: bytes, now: datetime
) -> tuple[Artifact, bool]:
    """Store an artifact, and return whether it is new. The same content is the same artifact.

    Raises `InvalidArtifact`, `ArtifactNamed`.
    """
    artifact_id = artifacts.id_of(content)
    modules = await asyncio.to_thread(artifacts.read, name, content)
    async with units() as uow:
        known = await uow.artifacts.hold(artifact_id)
    if known is not None and known.name != name:
        raise ArtifactNamed(
            f"this content is artifact {artifact_id} already, under the name {known.name}: "
            "use that, or delete it first"
        )
    # also for a known artifact: a file that was lost can be uploaded again
    await files.put(artifact_id, name, content)
    async with units() as uow:
        await uow.artifacts.add(Artifact(artifact_id, name, len(content), modules, now))
        stored = await uow.artifacts.get(artifact_id)
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
    data_root: str,
    now: datetime,
) -> Mapping[str, Any]:
    """Replace the artifacts in the document by their ids. A name means the artifact that was
    uploaded last under that name; a path means a file on the server, which is stored. Raises
    `InvalidJobGraph`.
    """
    named = document.get("artifacts")
    if not isinstance(named, list) or not all(isinstance(one, str) for one in named):
        return document  # the reader of the document reports what is wrong with it
    ids: list[str] = []
    faults: list[Fault] = []
    for one in named:
        try:
            ids.append((await _resolve_artifact(units, files, one, data_root, now)).id)
        except (ArtifactNotFound, InvalidArtifact, ArtifactNamed) as error:
            faults.append(Fault(None, "artifacts", str(error)))
    if faults:
        raise InvalidJobGraph(faults)
    return {**document, "artifacts": list(dict.fromkeys(ids))}


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
    units: UnitsOfWork, files: ArtifactFiles, named: str, data_root: str, now: datetime
) -> Artifact:
    async with units() as uow:
        if artifacts.is_id(named):
            return await uow.artifacts.get(ArtifactId(named))
        known = await uow.artifacts.named(named)
    if known is not None:
        return known
    path = Path(data_root) / named
    try:
        content = await files.read_local(str(path))
    except (OSError, ValueError) as error:
        raise ArtifactNotFound(
            f"{named!r} is neither the id nor the name of an artifact, nor a file below the "
            f"server's data root: {error}"
        ) from error
    if len(content) > MOST_BYTES:
        raise InvalidArtifact(
            f"{named} has {len(content)} bytes: at most {MOST_BYTES} are accepted"
        )
    return (await upload(units, files, path.name, content, now))[0]
