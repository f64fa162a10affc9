"""Alive, and able to serve."""

from datetime import datetime

from fastapi import APIRouter
from pydantic import BaseModel

from jobmanager.api.context import Ctx

router = APIRouter(tags=["health"])


class Alive(BaseModel):
    status: str


class Ready(BaseModel):
    status: str
    leader: bool
    """Whether this JobManager leads."""
    leader_url: str | None
    """Null while nobody leads: then only reads are served."""
    term: int | None
    """In which this JobManager leads."""
    started_at: datetime


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
