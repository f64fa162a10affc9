"""Health routes: whether the server is alive, and whether it can serve requests."""

from fastapi import APIRouter

from jobmanager.api.context import Ctx
from jobmanager.api.shapes.health import Alive, Ready

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="The process is alive")
async def healthz() -> Alive:
    return Alive(status="alive")


@router.get("/readyz", summary="Requests can be served: Postgres answers")
async def readyz(context: Ctx) -> Ready:
    await context.ping()
    term = context.leadership.term
    return Ready(
        status="ready",
        leader=term is not None,
        leader_url=context.leadership.leader_url,
        term=term,
        started_at=context.started_at,
    )
