"""Native routes about checkpoints: take one, look at every ack, verify every file."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path
from pydantic import BaseModel, ConfigDict

from jobmanager.api.context import Ctx, JobIdPath, Uow
from jobmanager.api.flink.failure_causes import failure_cause
from jobmanager.api.flink.triggers import trigger_of
from jobmanager.api.problems import FLINK, FLINK_ERRORS
from jobmanager.api.shapes.checkpoints import (
    AckResponse,
    CheckpointFailure,
    CheckpointResponse,
    CheckpointTriggered,
    SubtaskResponse,
    VerificationResponse,
)
from jobmanager.api.shapes.flink.operations import CheckpointOrTrigger, CheckpointTriggerStatus
from jobmanager.core.errors import OperationNotFound
from jobmanager.core.ids import CheckpointNumber
from jobmanager.core.life.checkpoint import BarrierTimes, CheckpointStatus
from jobmanager.core.life.records import StoredCheckpoint
from jobmanager.services import checkpoints

router = APIRouter(tags=["checkpoints"])
Number = Annotated[int, Path(ge=1, le=2**62)]
NumberOrTrigger = Annotated[str, Path(pattern="^([1-9][0-9]{0,17}|[0-9a-f]{32})$")]
_TRIGGER_DIGITS = 32
_FAILED = "org.apache.flink.runtime.checkpoint.CheckpointException"


class CheckpointRequest(BaseModel):
    model_config = ConfigDict(extra="ignore")

    checkpointType: str | None = None  # noqa: N815 - Flink's name
    triggerId: str | None = None  # noqa: N815 - Flink's name


AskedCheckpoint = Annotated[CheckpointRequest, Body(default_factory=CheckpointRequest)]


@router.post(
    "/jobs/{jobid}/checkpoints",
    status_code=HTTPStatus.ACCEPTED,
    summary="Take a checkpoint now",
    tags=[FLINK],
    responses=FLINK_ERRORS,
)
async def take(
    job_id: JobIdPath, context: Ctx, uow: Uow, body: AskedCheckpoint
) -> CheckpointTriggered:
    """Checkpoints are always incremental, whatever `checkpointType` says. A repetition with the
    same `triggerId` is the same checkpoint.
    """
    trigger = trigger_of(body.triggerId)
    number = await checkpoints.request(uow, job_id, trigger, context.clock())
    return CheckpointTriggered.model_validate({"number": number, "request-id": trigger.hex})


@router.get(
    "/jobs/{jobid}/checkpoints/{number}",
    summary="A checkpoint with every ack; or how a request for a checkpoint went",
    tags=[FLINK],
    responses=FLINK_ERRORS,
    response_model=CheckpointOrTrigger,
    response_model_exclude_unset=True,
)
async def show(
    job_id: JobIdPath, number: NumberOrTrigger, uow: Uow
) -> CheckpointResponse | CheckpointTriggerStatus:
    """With the number of a checkpoint, the checkpoint; with the 32 hexadecimal digits of a
    `request-id`, what Flink answers about the request.
    """
    async with uow:
        await uow.jobs.get(job_id)
        if len(number) != _TRIGGER_DIGITS:
            return _response(await uow.checkpoints.get(job_id, CheckpointNumber(int(number))))
        found = await uow.checkpoints.triggered_by(job_id, trigger_of(number))
        if found is None:
            raise OperationNotFound(
                f"There is no checkpoint operation with triggerId={number} for job {job_id.hex}."
            )
        return _trigger_status(await uow.checkpoints.get(job_id, found))


@router.post(
    "/jobs/{jobid}/checkpoints/{number}/verify", summary="Look at every file of a checkpoint"
)
async def verify(job_id: JobIdPath, number: Number, context: Ctx, uow: Uow) -> VerificationResponse:
    found = await checkpoints.verify(uow, context.storage, job_id, CheckpointNumber(number))
    return VerificationResponse(files=found.files, bytes=found.bytes, faults=list(found.faults))


def _trigger_status(found: StoredCheckpoint) -> CheckpointTriggerStatus:
    checkpoint = found.checkpoint
    operation: dict[str, Any] | None = {"checkpointId": checkpoint.number}
    if checkpoint.status is CheckpointStatus.IN_PROGRESS:
        operation = None
    elif checkpoint.status is CheckpointStatus.ABORTED:
        message = f"{checkpoint.aborted_because}: {checkpoint.detail}"
        operation = {"failureCause": failure_cause(_FAILED, message)}
    done = "IN_PROGRESS" if operation is None else "COMPLETED"
    return CheckpointTriggerStatus.model_validate({"status": {"id": done}, "operation": operation})


def _response(found: StoredCheckpoint) -> CheckpointResponse:
    checkpoint, stored = found.checkpoint, found.checkpoint.stored
    failure = None
    if checkpoint.aborted_because is not None:
        failure = CheckpointFailure(reason=checkpoint.aborted_because, detail=checkpoint.detail)
    return CheckpointResponse(
        number=checkpoint.number,
        kind=checkpoint.kind,
        status=checkpoint.status,
        attempt=checkpoint.attempt,
        triggered_at=checkpoint.triggered_at,
        completed_at=None if failure else checkpoint.ended_at,
        batch=dict(stored.batches) if stored else {},
        bytes=stored.bytes if stored else 0,
        new_bytes=stored.new_bytes if stored else 0,
        manifest=stored.manifest if stored else None,
        discarded_at=found.discarded_at,
        failure=failure,
        acks=_acks(found),
        awaited=[
            SubtaskResponse(region=ref.region, vertex=ref.vertex, subtask=ref.subtask)
            for ref in sorted(checkpoint.awaiting)
        ],
    )


def _acks(found: StoredCheckpoint) -> list[AckResponse]:
    stored = found.checkpoint.stored
    times = stored.times if stored else BarrierTimes()
    return [
        AckResponse(
            region=ref.region,
            vertex=ref.vertex,
            subtask=ref.subtask,
            acked_at=found.acked_at[ref],
            waited_ms=times.waited_ms.get(ref.region),
            snapshot_ms=times.snapshot_ms,
            kind=snapshot.kind,
            pointer=snapshot.pointer,
            version=snapshot.version,
            bytes=snapshot.bytes,
            key_groups=list(snapshot.key_groups),
            offsets=snapshot.offsets,
            watermark=snapshot.watermark,
        )
        for ref, snapshot in sorted(found.checkpoint.snapshots.items())
    ]
