"""Looks for garbage in storage, and deletes it.

A job's pool and checkpoints are listed and swept with its `pool.lock` held: no checkpoint is under
way then, so nothing needs a pool file that no manifest names.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from jobmanager.core.errors import StorageUnavailable
from jobmanager.core.ids import CheckpointNumber, JobId
from jobmanager.core.snapshots import garbage, layout
from jobmanager.core.snapshots import manifest as manifests
from jobmanager.core.snapshots.garbage import (
    CheckpointFound,
    Garbage,
    GarbageKind,
    GarbageLimits,
    JobFacts,
    JobFound,
    Judgement,
)
from jobmanager.core.snapshots.manifest import InvalidManifest
from jobmanager.core.snapshots.records import Remains
from jobmanager.core.snapshots.storage_uri import below, is_local, parent_and_name
from jobmanager.files.local_storage import LocalStorage
from jobmanager.files.open_storage import open_storage
from jobmanager.files.pool_lock import pool_locked
from jobmanager.files.storage_port import Storage

Answer = TypeVar("Answer")


class StorageSweep:
    def __init__(self, root: Path, checkpoints: str) -> None:
        self._work = LocalStorage(root)
        self._roots = dict.fromkeys((root.as_uri(), checkpoints))
        self._checkpoints = checkpoints

    async def jobs(self) -> Set[str]:
        def look() -> set[str]:
            names = {
                name for uri in self._roots for name in open_storage(uri).list_names(layout.JOBS)
            }
            return {name for name in names if layout.is_job_name(name)}

        return await _asked(look)

    async def checkpoints(self, job_id: JobId) -> Set[CheckpointNumber]:
        def look() -> set[CheckpointNumber]:
            files = self._snapshots(job_id.hex)
            return layout.checkpoint_numbers(files.list_names(layout.CHECKPOINTS))

        return await _asked(look)

    async def job(
        self, job_id: JobId, facts: JobFacts, limits: GarbageLimits, *, deletes: bool
    ) -> Judgement:
        return await _asked(lambda: self._job(job_id.hex, facts, limits, deletes))

    async def unknown_job(
        self, name: str, needed: Iterable[str], limits: GarbageLimits, *, deletes: bool
    ) -> Judgement:
        return await _asked(lambda: self._unknown_job(name, tuple(needed), limits, deletes))

    async def drafts(self) -> Mapping[str, int]:
        ours = self._work.inside(layout.SAVEPOINTS)

        def look() -> dict[str, int]:
            return {
                f"{ours.uri}/{name}": sum(ours.list_files(layout.draft_name(name)).values())
                for draft in ours.list_names()
                if (name := layout.name_of_draft(draft)) is not None
            }

        return await _asked(look)

    async def remains(self, directory: str, *, is_complete: bool) -> Sequence[Remains]:
        return await _asked(lambda: list(_remains(directory, is_complete)))

    async def delete(self, remains: Remains) -> None:
        def delete() -> None:
            files = open_storage(remains.path)
            files.delete([layout.MANIFEST])
            files.delete_directory()

        await _asked(delete)

    def _snapshots(self, job: str) -> Storage:
        return open_storage(below(self._checkpoints, layout.named_job_directory(job)))

    def _job(self, job: str, facts: JobFacts, limits: GarbageLimits, deletes: bool) -> Judgement:
        work = self._work.inside(layout.named_job_directory(job))
        files = self._snapshots(job)
        if not work.list_names() and not files.list_names():
            return Judgement()
        with pool_locked(work):
            try:
                found = _look(files, work, facts)
            except InvalidManifest as error:
                why = f"kept, since a manifest cannot be read and may name it: {error}"
                left = Garbage(f"{files.uri}/{layout.POOL}", GarbageKind.POOL_FILE, 0, why)
                return Judgement(left=(left,))
            judged = garbage.judge(facts, found, limits)
            if deletes:
                _sweep(files, work, judged.garbage)
        return _with_uris(judged, files.uri, work.uri)

    def _unknown_job(
        self, name: str, needed: tuple[str, ...], limits: GarbageLimits, deletes: bool
    ) -> Judgement:
        judgements = []
        for root in self._roots:
            files = open_storage(below(root, layout.named_job_directory(name)))
            found = files.list_files()
            if not found and not files.list_names():
                continue
            is_needed = any(one == files.uri or one.startswith(f"{files.uri}/") for one in needed)
            size = sum(found.values())
            judged = garbage.judge_unknown_job(files.uri, size, is_needed, limits)
            if deletes and judged.garbage:
                files.delete(filter(layout.is_checkpoint_manifest, found))
                files.delete_directory()
            judgements.append(judged)
        return garbage.together(judgements)


def pooled_by(files: Storage, manifest: str) -> set[str]:
    """Return the pool files that a manifest names; none if there is no manifest.

    A manifest that cannot be read stops the deletion, because it is unknown what it names.
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


def _look(files: Storage, work: Storage, facts: JobFacts) -> JobFound:
    there = files.list_files(layout.CHECKPOINTS)
    own: dict[CheckpointNumber, dict[str, int]] = {
        number: {} for number in layout.checkpoint_numbers(files.list_names(layout.CHECKPOINTS))
    }
    for location, size in there.items():
        if (number := layout.checkpoint_of(location)) is not None:
            own.setdefault(number, {})[location] = size
    is_over = facts.status.is_terminal and not facts.has_runner
    return JobFound(
        checkpoints={
            number: CheckpointFound(sum(sizes.values()), _named(files, number, sizes, facts))
            for number, sizes in own.items()
        },
        pool=files.list_files(layout.POOL),
        attempts={
            attempt: sum(work.list_files(layout.attempt(attempt)).values()) if is_over else 0
            for attempt in layout.attempt_numbers(work.list_names(layout.ATTEMPTS))
        },
    )


def _named(
    files: Storage, number: CheckpointNumber, there: Mapping[str, int], facts: JobFacts
) -> Set[str] | None:
    """Return the pool files that a checkpoint names; None if it is to be deleted."""
    manifest = layout.checkpoint_manifest(number)
    if number in facts.over or manifest not in there:
        return None
    return pooled_by(files, manifest)


def _sweep(files: Storage, work: Storage, found: Iterable[Garbage]) -> None:
    """Delete garbage, manifests first: after a crash nothing names the remaining files."""
    gone: dict[GarbageKind, list[str]] = {kind: [] for kind in GarbageKind}
    for one in found:
        gone[one.kind].append(one.path)
    directories = gone[GarbageKind.CHECKPOINT]
    files.delete([layout.manifest_in(directory) for directory in directories])
    for directory in directories:
        files.delete_directory(directory)
    files.delete(gone[GarbageKind.POOL_FILE])
    for attempt in gone[GarbageKind.ATTEMPT]:
        work.delete_directory(attempt)


def _with_uris(judged: Judgement, snapshots: str, work: str) -> Judgement:
    def absolute(one: Garbage) -> Garbage:
        root = work if one.kind is GarbageKind.ATTEMPT else snapshots
        return replace(one, path=f"{root}/{one.path}")

    return replace(
        judged,
        garbage=tuple(absolute(one) for one in judged.garbage),
        left=tuple(absolute(one) for one in judged.left),
    )


def _remains(directory: str, is_complete: bool) -> Iterable[Remains]:
    places = [] if is_complete else [directory]
    if is_local(directory):
        parent, name = parent_and_name(directory)
        places.append(below(parent, layout.draft_name(name)))
    for place in places:
        files = open_storage(place)
        found = files.list_files()
        if found or files.list_names():
            yield Remains(place, sum(found.values()))


async def _asked(look: Callable[[], Answer]) -> Answer:
    try:
        return await asyncio.to_thread(look)
    except OSError as error:
        raise StorageUnavailable(str(error)) from error
