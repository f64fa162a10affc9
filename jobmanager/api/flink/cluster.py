"""Flink's routes about the cluster: overview and web configuration."""

from importlib.metadata import version
from typing import Any

from fastapi import APIRouter

from jobmanager.api.context import Uow
from jobmanager.api.flink.cluster_slots import read_slots
from jobmanager.api.problems import FLINK
from jobmanager.api.shapes.flink.cluster import ClusterOverview, WebConfig
from jobmanager.core.life.job import JobStatus

router = APIRouter(tags=[FLINK])
FLINK_VERSION = "2.3.0"
"""The version whose REST API this one follows."""


@router.get(
    "/overview",
    summary="Runners, slots and jobs by state",
    response_model=ClusterOverview,
)
async def overview(uow: Uow) -> dict[str, Any]:
    async with uow:
        counted = await uow.jobs.counts()
        slots = await read_slots(uow)
    return {
        "taskmanagers": len(slots),
        "taskmanagers-blocked": 0,
        "slots-total": sum(one.slots for one in slots),
        "slots-available": sum(one.free for one in slots),
        "slots-free-and-blocked": 0,
        "jobs-running": counted.get(JobStatus.RUNNING, 0),
        "jobs-finished": counted.get(JobStatus.FINISHED, 0),
        "jobs-cancelled": counted.get(JobStatus.CANCELLED, 0),
        "jobs-failed": counted.get(JobStatus.FAILED, 0),
        "flink-version": FLINK_VERSION,
        "flink-commit": "headgate",
        "headgate-version": version("headgate"),
    }


@router.get(
    "/config",
    summary="Settings of the web interface",
    response_model=WebConfig,
)
async def config() -> dict[str, Any]:
    return {
        "refresh-interval": 3000,
        "timezone-name": "Coordinated Universal Time",
        "timezone-offset": 0,
        "flink-version": FLINK_VERSION,
        "flink-revision": f"headgate {version('headgate')}",
        "features": {
            "web-submit": True,
            "web-cancel": True,
            "web-rescale": True,
            "web-history": False,
        },
    }
