"""The native route that deletes garbage in storage, or lists what would be deleted."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query

from jobmanager.api.context import Ctx
from jobmanager.api.shapes.garbage import GarbageItem, GarbageResponse
from jobmanager.core.snapshots.garbage import Garbage, GarbageLimits, together
from jobmanager.services import artifacts, garbage

router = APIRouter(tags=["storage"])
_A_CENTURY_MS = 100 * 365 * 24 * 3600 * 1000


@router.post("/gc", summary="Delete garbage in storage, or list what would be deleted")
async def collect(
    context: Ctx,
    dry_run: bool = False,
    older_than_ms: Annotated[int | None, Query(ge=0, le=_A_CENTURY_MS)] = None,
    unknown_jobs: bool = False,
) -> GarbageResponse:
    """`older_than_ms` includes working directories of jobs that failed or were cancelled longer ago
    than that. `unknown_jobs` includes directories of jobs that are not in this server's
    database.
    """
    age = None if older_than_ms is None else timedelta(milliseconds=older_than_ms)
    limits, deletes = GarbageLimits(context.clock(), age, unknown_jobs), not dry_run
    found = together(
        [
            await garbage.collect(context.units, context.storage.sweep, limits, deletes=deletes),
            await artifacts.unused(
                context.units, context.storage.artifacts, limits, deletes=deletes
            ),
        ]
    )
    return GarbageResponse(
        dry_run=dry_run,
        items=[_item(one) for one in found.garbage],
        bytes=sum(one.bytes for one in found.garbage),
        left=[_item(one) for one in found.left],
        kept=dict(found.kept),
    )


def _item(one: Garbage) -> GarbageItem:
    return GarbageItem(path=one.path, kind=one.kind, bytes=one.bytes, why=one.why)
