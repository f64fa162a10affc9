"""Looking through storage for garbage, and deleting it.

A job's pool and checkpoints are looked at and swept with its `pool.lock` held: no
checkpoint is under way then, so a pool file that no manifest names is needed by nobody.
"""

import asyncio
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from jobmanager.core.errors import StorageUnavailable
from jobmanager.core.ids import CheckpointNumber, JobId
from jobmanager.core.snapshots import garbage
from jobmanager.core.snapshots import manifest as manifests
from jobmanager.core.snapshots.garbage import (
    CheckpointFound,
    Garbage,
    GarbageKind,
    JobFacts,
    JobFound,
    Judgement,
    Limits,
)
from jobmanager.core.snapshots.manifest import InvalidManifest
from jobmanager.core.snapshots.storage_uri import below, is_local, local_path
from jobmanager.files.local_files import LocalFiles
from jobmanager.files.open_storage import open_files
from jobmanager.files.snapshot_files import SnapshotFiles
from jobmanager.services.ports.storage import Remains
from jobmanager.storage.pool_lock import pool_locked

Answer = TypeVar("Answer")
_JOB = re.compile(r"[0-9a-f]{32}")


class StorageSweep:
    def __init__(self, root: Path, checkpoints: str) -> None:
        self._root = root
        self._roots = dict.fromkeys((root.as_uri(), checkpoints))
        self._checkpoints = checkpoints

    async def jobs(self) -> Set[str]:
        def look() -> set[str]:
            names = {name for uri in self._roots for name in open_files(uri).names("jobs")}
            return {name for name in names if _JOB.fullmatch(name)}

        return await _asked(look)

    async def checkpoints(self, job_id: JobId) -> Set[CheckpointNumber]:
        def look() -> set[CheckpointNumber]:
            return _numbers(self._snapshots(job_id.hex).names(manifests.CHECKPOINTS))

        return await _asked(look)

    async def job(
        self, job_id: JobId, facts: JobFacts, limits: Limits, *, deletes: bool
    ) -> Judgement:
        return await _asked(lambda: self._job(job_id.hex, facts, limits, deletes))

    async def unknown_job(
        self, name: str, needed: Iterable[str], limits: Limits, *, deletes: bool
    ) -> Judgement:
        return await _asked(lambda: self._unknown_job(name, tuple(needed), limits, deletes))

    async def drafts(self) -> Mapping[str, int]:
        ours = LocalFiles(self._root / "savepoints")

        def look() -> dict[str, int]:
            return {
                f"{ours.uri}/{name}": sum(ours.found(manifests.draft_name(name)).values())
                for draft in ours.names()
                if (name := manifests.name_of_draft(draft)) is not None
            }

        return await _asked(look)

    async def remains(self, directory: str, *, is_complete: bool) -> Sequence[Remains]:
        return await _asked(lambda: list(_remains(directory, is_complete)))

    async def delete(self, remains: Remains) -> None:
        def delete() -> None:
            files = open_files(remains.path)
            files.delete([manifests.FILE_NAME])
            files.remove()

        await _asked(delete)

    def _snapshots(self, job: str) -> SnapshotFiles:
        return open_files(below(self._checkpoints, "jobs", job))

    def _job(self, job: str, facts: JobFacts, limits: Limits, deletes: bool) -> Judgement:
        home, files = self._root / "jobs" / job, self._snapshots(job)
        if not home.exists() and not files.names():
            return Judgement()
        with pool_locked(home):
            try:
                found = _look(files, home, facts)
            except InvalidManifest as error:
                why = f"left alone, since it is unknown what a manifest names: {error}"
                left = Garbage(f"{files.uri}/{manifests.POOL}", GarbageKind.POOL_FILE, 0, why)
                return Judgement(left=(left,))
            judged = garbage.judge(facts, found, limits)
            if deletes:
                _sweep(files, home, judged.garbage)
        return _with_uris(judged, files.uri, home.as_uri())

    def _unknown_job(
        self, name: str, needed: tuple[str, ...], limits: Limits, deletes: bool
    ) -> Judgement:
        judgements = []
        for root in self._roots:
            files = open_files(below(root, "jobs", name))
            found = files.found()
            if not found and not files.names():
                continue
            is_needed = any(one == files.uri or one.startswith(f"{files.uri}/") for one in needed)
            size = sum(found.values())
            judged = garbage.judge_unknown_job(files.uri, size, is_needed, limits)
            if deletes and judged.garbage:
                files.delete(filter(manifests.is_manifest, found))
                files.remove()
            judgements.append(judged)
        return garbage.together(judgements)


def pooled_by(files: SnapshotFiles, manifest: str) -> set[str]:
    """The pool files a manifest names; none where there is no manifest.

    A manifest that cannot be understood stops the deletion: what it names is unknown.
    """
    try:
        text = files.read(manifest).decode()
    except FileNotFoundError:
        return set()
    except UnicodeDecodeError as error:
        raise InvalidManifest(f"{manifest}: {error}") from error
    try:
        return {file.location for file in manifests.from_json(text).files() if file.is_pooled}
    except InvalidManifest as error:
        raise InvalidManifest(f"{manifest}: {error}") from error


def _numbers(names: Iterable[str]) -> set[CheckpointNumber]:
    return {CheckpointNumber(int(name)) for name in names if name.isdigit()}


def _look(files: SnapshotFiles, home: Path, facts: JobFacts) -> JobFound:
    there = files.found(manifests.CHECKPOINTS)
    own: dict[CheckpointNumber, dict[str, int]] = {
        number: {} for number in _numbers(files.names(manifests.CHECKPOINTS))
    }
    for location, size in there.items():
        for number in _numbers([location.split("/")[1]]):
            own.setdefault(number, {})[location] = size
    attempts = LocalFiles(home / "attempts")
    is_over = facts.status.is_terminal and not facts.has_runner
    return JobFound(
        checkpoints={
            number: CheckpointFound(sum(sizes.values()), _named(files, number, sizes, facts))
            for number, sizes in own.items()
        },
        pool=files.found(manifests.POOL),
        attempts={
            int(name): sum(attempts.found(name).values()) if is_over else 0
            for name in attempts.names()
            if name.isdigit()
        },
    )


def _named(
    files: SnapshotFiles, number: CheckpointNumber, there: Mapping[str, int], facts: JobFacts
) -> Set[str] | None:
    """Of a checkpoint that goes nobody needs to know it."""
    manifest = manifests.location_of(number)
    if number in facts.over or manifest not in there:
        return None
    return pooled_by(files, manifest)


def _sweep(files: SnapshotFiles, home: Path, found: Iterable[Garbage]) -> None:
    """The manifests first: whatever is left after a crash is garbage, and named by nothing."""
    gone: dict[GarbageKind, list[str]] = {kind: [] for kind in GarbageKind}
    for one in found:
        gone[one.kind].append(one.path)
    directories = gone[GarbageKind.CHECKPOINT]
    files.delete([f"{directory}/{manifests.FILE_NAME}" for directory in directories])
    for directory in directories:
        files.remove(directory)
    files.delete(gone[GarbageKind.POOL_FILE])
    for attempt in gone[GarbageKind.ATTEMPT]:
        shutil.rmtree(home / attempt, ignore_errors=True)


def _with_uris(judged: Judgement, snapshots: str, home: str) -> Judgement:
    def absolute(one: Garbage) -> Garbage:
        root = home if one.kind is GarbageKind.ATTEMPT else snapshots
        return replace(one, path=f"{root}/{one.path}")

    return replace(
        judged,
        garbage=tuple(absolute(one) for one in judged.garbage),
        left=tuple(absolute(one) for one in judged.left),
    )


def _remains(directory: str, is_complete: bool) -> Iterable[Remains]:
    places = [] if is_complete else [directory]
    if is_local(directory):
        path = local_path(directory)
        places.append(path.with_name(manifests.draft_name(path.name)).as_uri())
    for place in places:
        files = open_files(place)
        found = files.found()
        if found or files.names():
            yield Remains(place, sum(found.values()))


async def _asked(look: Callable[[], Answer]) -> Answer:
    try:
        return await asyncio.to_thread(look)
    except OSError as error:
        raise StorageUnavailable(str(error)) from error
