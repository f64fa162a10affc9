"""The native route about JobManagers: which one leads, and which others could."""

from fastapi import APIRouter

from jobmanager.api.context import Ctx
from jobmanager.api.shapes.jobmanagers import JobManagerItem, JobManagerList, LeaseItem, WarmRunners
from jobmanager.services.ports.leadership import Election, JobManager

router = APIRouter(tags=["jobmanagers"])


@router.get("/jobmanagers", summary="Which JobManager leads, with which term and until when")
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
        warm=WarmRunners.model_validate(one.warm) if one.warm is not None else None,
        is_leader=seen.lease.is_in_force(seen.at) and seen.lease.holder == one.id,
    )
