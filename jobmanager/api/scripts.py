"""The native route that derives a job graph from a PySpark program."""

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from jobmanager.api.context import Ctx
from jobmanager.api.shapes.scripts import ScriptResponse
from jobmanager.core.graph.script_graph import ScriptCall
from jobmanager.services import scripts

router = APIRouter(tags=["artifacts"])
_ID = "^[0-9a-f]{64}$"


class ScriptRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    script: str = Field(pattern=_ID, description="The artifact that is the script.")
    arguments: list[str] = Field(default_factory=list, max_length=1000)
    artifacts: list[str] = Field(
        default_factory=list,
        max_length=100,
        description="Ids of the artifacts that the script imports.",
    )
    name: str | None = Field(None, min_length=1, description="None: that of the script.")
    parallelism: int | None = Field(None, ge=1, le=32_768)
    spark: dict[str, str] = Field(default_factory=dict)


@router.post("/scripts/describe", summary="The job graph of a PySpark program")
async def describe(body: ScriptRequest, context: Ctx) -> ScriptResponse:
    """Run the script up to where it waits for its queries. No query is started, and nothing is
    stored.
    """
    call = ScriptCall(
        script=body.script,
        arguments=body.arguments,
        artifacts=body.artifacts,
        name=body.name or "",
        parallelism=body.parallelism,
        spark=body.spark,
    )
    places = context.run_settings
    graph = await scripts.describe(
        context.units, context.inspector, call, places.data_root, places.storage
    )
    return ScriptResponse(graph=graph)
