"""The native route about the revisions of a job: what each upgrade and rescale changed."""

from fastapi import APIRouter

from jobmanager.api.context import JobIdPath, Uow
from jobmanager.api.shapes.operations import FromTo
from jobmanager.api.shapes.upgrades import ChangedField, RevisionItem, RevisionList
from jobmanager.core.life.operation import OperationStatus
from jobmanager.core.life.records import StoredOperation
from jobmanager.core.snapshots.upgrade import differences

router = APIRouter(tags=["jobs"])


@router.get("/jobs/{jobid}/revisions", summary="What each upgrade and rescale changed")
async def revisions(job_id: JobIdPath, uow: Uow) -> RevisionList:
    """The newest first. Changes that failed or were rolled back are not among them."""
    async with uow:
        stored = await uow.jobs.get(job_id)
        operations = await uow.operations.of_job(job_id)
    done = [one for one in operations if one.operation.status is OperationStatus.COMPLETED]
    return RevisionList(
        revision=stored.revision,
        parallelism=stored.parallelism,
        submitted_at=stored.submitted_at,
        items=[item for one in done if (item := _item(one)) is not None],
    )


def _item(operation: StoredOperation) -> RevisionItem | None:
    change = operation.change
    if change is None:
        return None
    before, after = change.before, change.after
    return RevisionItem(
        operation=operation.id.hex,
        kind=operation.operation.kind,
        at=operation.operation.ended_at or operation.created_at,
        revision=FromTo(before=before.number, after=after.number),
        parallelism=FromTo(before=before.parallelism, after=after.parallelism),
        needs_restart=change.needs_restart,
        changes=[
            ChangedField(vertex=one.vertex, field=one.field, before=one.before, after=one.after)
            for one in differences(before.document, after.document)
        ],
    )
