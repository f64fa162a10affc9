"""Native routes about checkpoints: take one, look at every ack, verify every file."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path

from jobmanager.api.context import Ctx, JobIdPath, Uow
from jobmanager.api.shapes.checkpoints import (
    AckResponse,
    CheckpointFailure,
    CheckpointResponse,
    CheckpointTriggered,
    SubtaskResponse,
    VerificationResponse,
)
from jobmanager.core.ids import CheckpointNumber
from jobmanager.core.life.records import StoredCheckpoint
from jobmanager.services import checkpoints

router = APIRouter(tags=["checkpoints"])
Number = Annotated[int, Path(ge=1, le=2**62)]


@router.post(
    "/jobs/{jobid}/checkpoints", status_code=HTTPStatus.ACCEPTED, summary="Take a checkpoint now"
)
async def take(job_id: JobIdPath, context: Ctx, uow: Uow) -> CheckpointTriggered:
    return CheckpointTriggered(number=await checkpoints.request(uow, job_id, context.clock()))


@router.get("/jobs/{jobid}/checkpoints/{number}", summary="A checkpoint with every ack")
async def show(job_id: JobIdPath, number: Number, uow: Uow) -> CheckpointResponse:
    async with uow:
        await uow.jobs.get(job_id)
        return _response(await uow.checkpoints.get(job_id, CheckpointNumber(number)))


@router.post(
    "/jobs/{jobid}/checkpoints/{number}/verify", summary="Look at every file of a checkpoint"
)
async def verify(job_id: JobIdPath, number: Number, context: Ctx, uow: Uow) -> VerificationResponse:
    found = await checkpoints.verify(uow, context.storage, job_id, CheckpointNumber(number))
    return VerificationResponse(files=found.files, bytes=found.bytes, faults=list(found.faults))


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
    return [
        AckResponse(
            region=ref.region,
            vertex=ref.vertex,
            subtask=ref.subtask,
            acked_at=found.acked_at[ref],
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
