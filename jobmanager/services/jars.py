"""Use cases about jars: upload and delete a file that can be run as a job."""

import asyncio
import zipfile
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from typing import IO, Any
from uuid import UUID

from jobmanager.core.artifact import MIB, UploadLimits
from jobmanager.core.errors import (
    ArtifactInUse,
    ArtifactNamed,
    ArtifactNotFound,
    ArtifactStoreFull,
    BodyTooLarge,
    InvalidArtifact,
)
from jobmanager.core.ids import ArtifactId
from jobmanager.core.jar import (
    GRAPH_NAMES,
    YAML_SUFFIXES,
    Jar,
    artifact_name,
    check_name,
    is_graph,
)
from jobmanager.files.zip_entries import unpacked
from jobmanager.services import artifacts
from jobmanager.services.graph_texts import document_in
from jobmanager.services.ports.artifacts import ArtifactFiles
from jobmanager.services.ports.unit_of_work import UnitsOfWork

MOST_GRAPH_BYTES = 16 * MIB


async def upload(
    units: UnitsOfWork,
    files: ArtifactFiles,
    limits: UploadLimits,
    name: str,
    content: IO[bytes],
    random_id: UUID,
    now: datetime,
) -> Jar:
    """Store an uploaded file. Whether its graph is sound is checked when it runs. Raises
    `InvalidArtifact`, `MalformedRequest`, `ArtifactTooLarge`, `ArtifactStoreFull`.
    """
    check_name(name)
    async with units() as uow:
        if await uow.jars.count() >= limits.total_count:
            raise ArtifactStoreFull(
                f"the server keeps {limits.total_count} jars at most: delete some, or let the "
                "server keep more (HEADGATE_MOST_ARTIFACTS)"
            )
    graph = await asyncio.to_thread(_graph_in, name, content)
    artifact, is_new = None, False
    if not is_graph(name) and not (graph is not None and await _has_no_code(content)):
        artifact, is_new = await _keep_code(units, files, limits, name, content, now)
    jar = Jar(f"{random_id}_{name}", name, now, graph, artifact, is_new)
    async with units() as uow:
        if artifact is not None and await uow.artifacts.hold(artifact) is None:
            raise ArtifactNotFound(f"the code of {name} was deleted meanwhile: upload it again")
        await uow.jars.add(jar)
        await uow.commit()
    return jar


async def delete(units: UnitsOfWork, files: ArtifactFiles, jar_id: str) -> Jar:
    """Delete a jar, and the code that came with it, unless a job or another jar needs the code.
    Jobs that it was run as go on. Raises `JarNotFound`.
    """
    async with units() as uow:
        jar = await uow.jars.get(jar_id)
        await uow.jars.delete(jar_id)
        is_needed = jar.artifact is not None and await uow.jars.is_needed(jar.artifact)
        await uow.commit()
    if jar.artifact is not None and jar.brought_artifact and not is_needed:
        with suppress(ArtifactInUse, ArtifactNotFound):
            await artifacts.delete(units, files, jar.artifact)
    return jar


async def _keep_code(
    units: UnitsOfWork,
    files: ArtifactFiles,
    limits: UploadLimits,
    name: str,
    content: IO[bytes],
    now: datetime,
) -> tuple[ArtifactId, bool]:
    """Store the code as an artifact; return its id, and whether it is new."""
    content.seek(0)
    digest = sha256()

    async def pieces() -> AsyncIterator[bytes]:
        while piece := await asyncio.to_thread(content.read, MIB):
            digest.update(piece)
            yield piece

    try:
        stored, is_new = await artifacts.upload(
            units, files, limits, artifact_name(name), pieces(), now
        )
    except ArtifactNamed:  # the same code is there under another name
        return ArtifactId(digest.hexdigest()), False
    return stored.id, is_new


def _graph_in(name: str, content: IO[bytes]) -> Mapping[str, Any] | None:
    """Return the job graph in the file; None: it is a program. Raises `InvalidArtifact`."""
    content.seek(0)
    if is_graph(name):
        return _document(name, content.read(MOST_GRAPH_BYTES + 1))
    if name.endswith(".py"):
        return None
    try:
        with zipfile.ZipFile(content) as archive:
            entries = {one.filename: one for one in archive.infolist()}
            found = next((entries[one] for one in GRAPH_NAMES if one in entries), None)
            if found is None:
                raise InvalidArtifact(
                    f"{name} has no job graph: put job.yaml or job.json at the top of the zip. A "
                    "program for the JVM cannot be run; code for other graphs is uploaded with "
                    "POST /artifacts"
                )
            if found.file_size > MOST_GRAPH_BYTES:
                raise BodyTooLarge(f"{found.filename} in {name} is larger than a job graph may be")
            return _document(found.filename, unpacked(archive, found))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise InvalidArtifact(f"{name} is not a zip file that can be read: {error}") from error


def _document(name: str, text: bytes) -> Mapping[str, Any]:
    if len(text) > MOST_GRAPH_BYTES:
        raise BodyTooLarge(f"{name} is larger than a job graph may be: {MOST_GRAPH_BYTES} bytes")
    return document_in(text, name, is_yaml=name.endswith(YAML_SUFFIXES))


async def _has_no_code(content: IO[bytes]) -> bool:
    """Whether a zip holds no Python module: then it is no artifact, only a job graph."""

    def look() -> bool:
        with zipfile.ZipFile(content) as archive:
            return not any(one.filename.endswith(".py") for one in archive.infolist())

    return await asyncio.to_thread(look)
