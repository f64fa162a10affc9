"""Who leads, and who could."""

from datetime import datetime
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel

from jobmanager.api.context import Ctx
from jobmanager.services.ports.leadership import Election, JobManager

router = APIRouter(tags=["jobmanagers"])


class JobManagerItem(BaseModel):
    id: UUID
    url: str
    host: str
    pid: int
    version: str
    started_at: datetime
    seen_at: datetime
    is_leader: bool
    warm: dict[str, int] | None
    """Its warm runners, `wanted`, `primed` and `starting`; null: it leads not, and keeps none."""


class LeaseItem(BaseModel):
    holder: UUID | None
    """Who leads, or led last."""
    url: str | None
    expires_at: datetime
    is_in_force: bool
    remaining_ms: int


class JobManagerList(BaseModel):
    items: list[JobManagerItem]
    leader: str | None
    """The leader's URL; null while nobody leads."""
    term: int
    lease: LeaseItem


@router.get("/jobmanagers", summary="Who leads, with which term and until when")
async def jobmanager_list(context: Ctx) -> JobManagerList:
    seen = await context.leadership.look()
    lease, is_in_force = seen.lease, seen.lease.is_in_force(seen.at)
    remaining = (lease.expires_at - seen.at).total_seconds() if is_in_force else 0.0
    return JobManagerList(
        items=[_item(one, seen) for one in seen.jobmanagers],
        leader=lease.url if is_in_force else None,
        term=lease.term,
        lease=LeaseItem(
            holder=lease.holder,
            url=lease.url,
            expires_at=lease.expires_at,
            is_in_force=is_in_force,
            remaining_ms=int(remaining * 1000),
        ),
    )


def _item(one: JobManager, seen: Election) -> JobManagerItem:
    return JobManagerItem(
        id=one.id,
        url=one.url,
        host=one.host,
        pid=one.pid,
        version=one.version,
        started_at=one.started_at,
        seen_at=one.seen_at,
        warm=dict(one.warm) if one.warm is not None else None,
        is_leader=seen.lease.is_in_force(seen.at) and seen.lease.holder == one.id,
    )
