"""Routes about what Flink has and Headgate has not, answered as Flink does where there is nothing:
cluster data sets, profiler runs, and the end of the cluster by a request.
"""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path
from pydantic import BaseModel, ConfigDict

from jobmanager.api.context import JobIdPath, Uow, hex_id
from jobmanager.api.flink.metrics import runner_named
from jobmanager.api.problems import FLINK
from jobmanager.api.shapes.flink.absent import DataSets, Profilings
from jobmanager.api.shapes.flink.operations import Nothing, RequestAccepted, TriggerStatus
from jobmanager.core.errors import DataSetNotFound, OperationNotFound, UnsupportedRequest

router = APIRouter(tags=[FLINK])
_NO_PROFILER = "there is no profiler: look at the Spark stages, or use py-spy and jcmd on the host"


class ClientHeartbeat(BaseModel):
    model_config = ConfigDict(extra="ignore")

    expiredTimestamp: int = 0  # noqa: N815 - Flink's name


@router.delete("/cluster", summary="Ends no server", response_model=Nothing)
async def shut_down() -> dict[str, Any]:
    raise UnsupportedRequest(
        "a request does not end the server: jobs would be left alone. End its process (SIGTERM); "
        "jobs run on until another server takes over, or end with it (--stop-jobs)"
    )


@router.get("/datasets", summary="Cluster data sets, none", response_model=DataSets)
async def data_sets() -> dict[str, Any]:
    return {"dataSets": []}


@router.get(
    "/datasets/delete/{triggerid}",
    summary="How the deletion of a data set went",
    response_model=TriggerStatus,
    response_model_exclude_unset=True,
)
async def deletion(triggerid: str) -> dict[str, Any]:
    raise OperationNotFound(f"There is no deletion of a data set with triggerId={triggerid}.")


@router.delete(
    "/datasets/{datasetid}",
    status_code=HTTPStatus.ACCEPTED,
    summary="Delete a data set, none",
    response_model=RequestAccepted,
)
async def delete_data_set(
    datasetid: Annotated[str, Path(description="32 hexadecimal digits")],
) -> dict[str, Any]:
    hex_id("datasetid", datasetid)
    raise DataSetNotFound(f"there is no data set {datasetid}: Headgate keeps none")


@router.patch(
    "/jobs/{jobid}/clientHeartbeat",
    status_code=HTTPStatus.ACCEPTED,
    summary="A client says that it is still there",
    response_model=Nothing,
)
async def client_heartbeat(
    job_id: JobIdPath,
    uow: Uow,
    body: Annotated[ClientHeartbeat, Body(default_factory=ClientHeartbeat)],
) -> dict[str, Any]:
    """A job does not end when its client is gone, so nothing is noted."""
    async with uow:
        await uow.jobs.get(job_id)
    return {}


@router.get("/jobmanager/profiler", summary="Profiler runs, none", response_model=Profilings)
async def profilings() -> dict[str, Any]:
    return {"profilingList": []}


@router.post("/jobmanager/profiler", summary="Profiles nothing", response_model=Nothing)
async def profile() -> dict[str, Any]:
    raise UnsupportedRequest(_NO_PROFILER)


@router.get(
    "/taskmanagers/{taskmanagerid}/profiler",
    summary="Profiler runs of a runner, none",
    response_model=Profilings,
)
async def runner_profilings(taskmanagerid: str, uow: Uow) -> dict[str, Any]:
    async with uow:
        await runner_named(uow, taskmanagerid)
    return {"profilingList": []}


@router.post(
    "/taskmanagers/{taskmanagerid}/profiler", summary="Profiles nothing", response_model=Nothing
)
async def profile_runner(taskmanagerid: str, uow: Uow) -> dict[str, Any]:
    async with uow:
        await runner_named(uow, taskmanagerid)
    raise UnsupportedRequest(_NO_PROFILER)
