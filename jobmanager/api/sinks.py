"""The newest rows of a sink: read from the output, not from the job."""

from typing import Annotated

from fastapi import APIRouter, Query

from jobmanager.api.context import Ctx, JobIdPath
from jobmanager.api.shapes.sinks import SinkColumnResponse, SinkRowsResponse
from jobmanager.protocol.inspection import MOST_SINK_ROWS
from jobmanager.services import sink_rows

router = APIRouter(tags=["sinks"])


@router.get("/jobs/{jobid}/sinks/{vertex}/rows", summary="The newest rows of a sink")
async def rows_of_sink(
    job_id: JobIdPath,
    vertex: str,
    context: Ctx,
    limit: Annotated[int, Query(ge=1, le=MOST_SINK_ROWS)] = 20,
) -> SinkRowsResponse:
    """For sinks with the connectors `files`, `delta` and `kafka` that need no secret. The job may
    be running or have ended.
    """
    found = await sink_rows.last_rows(
        context.units, context.inspector, context.run_settings, job_id, vertex, limit
    )
    return SinkRowsResponse(
        vertex=vertex,
        origin=found.origin,
        columns=[SinkColumnResponse(name=one.name, type=one.type) for one in found.columns],
        rows=found.rows,
    )
