"""Native routes that upgrade a running job to another graph, or show what an upgrade would do."""

from http import HTTPStatus
from typing import Annotated
from uuid import NAMESPACE_URL, uuid4, uuid5

from fastapi import APIRouter, Header, Query, Request

from jobmanager.api.context import Ctx, CurrentCaller, JobIdPath
from jobmanager.api.graph_body import GRAPH_BODY, resolved_document
from jobmanager.api.problems import GRAPH_FAULTS
from jobmanager.api.savepoint_targets import target_of
from jobmanager.api.shapes.shape import ShapeResponse
from jobmanager.api.shapes.upgrades import (
    ChangedField,
    PlanResponse,
    SparkJudgement,
    UpgradeAccepted,
    VertexState,
)
from jobmanager.api.state import Service
from jobmanager.core.ids import OperationId
from jobmanager.core.life.revision import WantedRevision
from jobmanager.core.snapshots.upgrade import UpgradePlan
from jobmanager.services import changes
from jobmanager.services.ports.history import Actor
from jobmanager.services.trials import SparkTrials

router = APIRouter(tags=["jobs"])


@router.post(
    "/jobs/{jobid}/upgrade",
    status_code=HTTPStatus.ACCEPTED,
    summary="Continue a running job with another graph",
    openapi_extra=GRAPH_BODY,
    response_model=UpgradeAccepted,
    responses={200: {"model": PlanResponse, "description": "A dry run"}, **GRAPH_FAULTS},
)
async def upgrade(
    job_id: JobIdPath,
    request: Request,
    context: Ctx,
    caller: CurrentCaller,
    states: Service,
    parallelism: Annotated[int | None, Query(ge=1, le=32_768)] = None,
    allow_non_restored_state: bool = False,
    dry_run: bool = False,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=255)] = None,
) -> UpgradeAccepted | ShapeResponse:
    """A dry run answers 200 with the plan: what changes, which state is kept, what Spark
    reports.
    """
    document = await resolved_document(request, context, caller, is_dry=dry_run)
    wanted = WantedRevision(document, parallelism, allow_non_restored_state)
    trials = SparkTrials(states, context.run_settings)
    plan = await changes.plan(context.units(), trials, job_id, wanted)
    if dry_run:
        return ShapeResponse(_plan(plan), HTTPStatus.OK)
    changes.check(plan)
    name = f"headgate:upgrade:{job_id.hex}:{idempotency_key}"
    operation_id = uuid5(NAMESPACE_URL, name) if idempotency_key else uuid4()
    operation = await changes.upgrade(
        context.units(Actor.CLIENT, caller.name),
        job_id,
        OperationId(operation_id),
        wanted,
        await target_of(context, None),
        context.clock(),
    )
    return UpgradeAccepted(operation=operation.id.hex)


def _plan(plan: UpgradePlan) -> PlanResponse:
    return PlanResponse(
        verdict=plan.verdict,
        reasons=list(plan.reasons),
        changes=[
            ChangedField(vertex=one.vertex, field=one.field, before=one.before, after=one.after)
            for one in plan.changes
        ],
        state=[
            VertexState(region=one.region, vertex=one.vertex, fate=one.fate) for one in plan.states
        ],
        spark=[
            SparkJudgement(region=one.region, accepted=one.accepted, error=one.error)
            for one in plan.spark
        ],
        needs_restart=plan.needs_restart,
    )
