"""Every operation of the server, generated from its OpenAPI document: see `make types`.

A function returns the request as a value; `ApiOperations` and `AsyncApiOperations` have a method
for each function, which sends the request.
"""

from collections.abc import Mapping
from typing import Any, Literal

from jobmanager.client import answers
from jobmanager.client.api_call import (
    AnswerForm,
    ApiCall,
    AsyncMethod,
    Method,
    given,
    own_id,
    part,
    texts,
)
from jobmanager.client.server_events import AsyncEvents, Events, ServerEvent


def get_healthz() -> ApiCall[answers.Alive]:
    """The process is alive."""
    return ApiCall(
        method="GET",
        path="/healthz",
        is_repeatable=True,
    )


def get_metrics() -> ApiCall[str]:
    """Figures for Prometheus."""
    return ApiCall(
        method="GET",
        path="/metrics",
        form=AnswerForm.TEXT,
        is_repeatable=True,
    )


def get_readyz() -> ApiCall[answers.Ready]:
    """Requests can be served: Postgres answers."""
    return ApiCall(
        method="GET",
        path="/readyz",
        is_repeatable=True,
    )


def get_artifacts(
    *,
    limit: int | None = None,
    cursor: str | None = None,
) -> ApiCall[answers.ArtifactPage]:
    """All artifacts, the newest first."""
    return ApiCall(
        method="GET",
        path="/v1/artifacts",
        params=texts(
            {
                "limit": limit,
                "cursor": cursor,
            }
        ),
        is_repeatable=True,
    )


def upload_artifact(
    content: bytes,
    *,
    name: str,
) -> ApiCall[answers.ArtifactResponse]:
    """Upload a .py, .zip or .whl. The body is the file itself. Uploading the same content again
    answers 200, not 201, with the same artifact.
    """
    return ApiCall(
        method="POST",
        path="/v1/artifacts",
        params=texts(
            {
                "name": name,
            }
        ),
        content=content,
        headers={"Content-Type": "application/octet-stream"},
        is_repeatable=True,
        timeout=300,
    )


def delete_artifact(
    artifact_id: str,
) -> ApiCall[answers.ArtifactResponse]:
    """Delete an artifact that no job uses."""
    return ApiCall(
        method="DELETE",
        path=f"/v1/artifacts/{part(artifact_id)}",
        is_repeatable=True,
    )


def get_artifact(
    artifact_id: str,
) -> ApiCall[answers.ArtifactDetails]:
    """An artifact, its modules and who uses it."""
    return ApiCall(
        method="GET",
        path=f"/v1/artifacts/{part(artifact_id)}",
        is_repeatable=True,
    )


def get_audit(
    *,
    limit: int | None = None,
    before: int | None = None,
) -> ApiCall[answers.AuditPage]:
    """The audit: requests that would change something, the newest first."""
    return ApiCall(
        method="GET",
        path="/v1/audit",
        params=texts(
            {
                "limit": limit,
                "before": before,
            }
        ),
        is_repeatable=True,
    )


def get_config() -> ApiCall[answers.WebConfig]:
    """Settings of the web interface."""
    return ApiCall(
        method="GET",
        path="/v1/config",
        is_repeatable=True,
    )


def get_events(
    *,
    progress: Literal["each", "summary", "none"] | None = None,
    last_event_id: int | None = None,
) -> ApiCall[ServerEvent]:
    """Everything that happens. The type of an event is the kind of the history entry, its data the
    entry with the job's id, name and state. `progress` and `checkpoint_ack` events have no id: they
    are not stored.
    """
    return ApiCall(
        method="GET",
        path="/v1/events",
        params=texts(
            {
                "progress": progress,
            }
        ),
        headers=texts(
            {
                "Last-Event-ID": last_event_id,
            }
        ),
        form=AnswerForm.EVENTS,
        is_repeatable=True,
    )


def collect_garbage(
    *,
    dry_run: bool | None = None,
    older_than_ms: int | None = None,
    unknown_jobs: bool | None = None,
) -> ApiCall[answers.GarbageResponse]:
    """Delete garbage in storage, or list what would be deleted. `older_than_ms` includes working
    directories of jobs that failed or were cancelled longer ago than that. `unknown_jobs` includes
    directories of jobs that are not in this server's database.
    """
    return ApiCall(
        method="POST",
        path="/v1/gc",
        params=texts(
            {
                "dry_run": dry_run,
                "older_than_ms": older_than_ms,
                "unknown_jobs": unknown_jobs,
            }
        ),
        is_repeatable=True,
        timeout=600,
    )


def get_inspector() -> ApiCall[answers.InspectorResponse]:
    """The process that reads state."""
    return ApiCall(
        method="GET",
        path="/v1/inspector",
        is_repeatable=True,
    )


def get_jobmanagers() -> ApiCall[answers.JobManagerList]:
    """Which JobManager leads, with which term and until when."""
    return ApiCall(
        method="GET",
        path="/v1/jobmanagers",
        is_repeatable=True,
    )


def get_jobs() -> ApiCall[answers.JobsWithStatus]:
    """Ids and states of all live jobs and of the 100 that ended last."""
    return ApiCall(
        method="GET",
        path="/v1/jobs",
        is_repeatable=True,
    )


def submit_job(
    graph: Mapping[str, Any],
    *,
    parallelism: int | None = None,
    dry_run: bool | None = None,
    analyse: bool | None = None,
    savepoint: str | None = None,
    checkpoint: str | None = None,
    restore_mode: Literal["no_claim", "claim"] | None = None,
    allow_non_restored_state: bool | None = None,
    allow_drained: bool | None = None,
    idempotency_key: str | None = None,
) -> ApiCall[answers.DryRun | answers.JobSubmitted]:
    """Submit a job graph. The body is the job graph itself, as JSON or YAML. A dry run stores
    nothing.
    """
    return ApiCall(
        method="POST",
        path="/v1/jobs",
        params=texts(
            {
                "parallelism": parallelism,
                "dry_run": dry_run,
                "analyse": analyse,
                "savepoint": savepoint,
                "checkpoint": checkpoint,
                "restore_mode": restore_mode,
                "allow_non_restored_state": allow_non_restored_state,
                "allow_drained": allow_drained,
            }
        ),
        headers=texts(
            {
                "idempotency-key": own_id(idempotency_key),
            }
        ),
        json=dict(graph),
        is_repeatable=True,
        timeout=300,
    )


def get_jobs_overview() -> ApiCall[answers.JobsOverview]:
    """All live jobs and the 100 that ended last, a line each."""
    return ApiCall(
        method="GET",
        path="/v1/jobs/overview",
        is_repeatable=True,
    )


def get_jobs_summary(
    *,
    state: list[str] | None = None,
    q: str | None = None,
    job: list[str] | None = None,
    limit: int | None = None,
    cursor: str | None = None,
    if_none_match: str | None = None,
) -> ApiCall[answers.SummaryPage]:
    """Jobs, a line each, the newest first. The answer has an `ETag`; a request with `If-None-Match`
    is answered 304 if nothing changed.
    """
    return ApiCall(
        method="GET",
        path="/v1/jobs/summary",
        params=texts(
            {
                "state": state,
                "q": q,
                "job": job,
                "limit": limit,
                "cursor": cursor,
            }
        ),
        headers=texts(
            {
                "if-none-match": if_none_match,
            }
        ),
        is_repeatable=True,
    )


def get_job(
    job_id: str,
) -> ApiCall[answers.JobDetails]:
    """A job in detail."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}",
        is_repeatable=True,
    )


def cancel_job(
    job_id: str,
    *,
    mode: str | None = None,
) -> ApiCall[answers.Nothing]:
    """Cancel a job."""
    return ApiCall(
        method="PATCH",
        path=f"/v1/jobs/{part(job_id)}",
        params=texts(
            {
                "mode": mode,
            }
        ),
        is_repeatable=True,
    )


def get_job_accumulators(
    job_id: str,
) -> ApiCall[answers.JobAccumulators]:
    """What users' code counted."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/accumulators",
        is_repeatable=True,
    )


def get_job_checkpoints(
    job_id: str,
) -> ApiCall[answers.CheckpointsStatistics]:
    """Counts, summary and history of checkpoints."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/checkpoints",
        is_repeatable=True,
    )


def trigger_checkpoint(
    job_id: str,
) -> ApiCall[answers.CheckpointTriggered]:
    """Take a checkpoint now."""
    return ApiCall(
        method="POST",
        path=f"/v1/jobs/{part(job_id)}/checkpoints",
    )


def get_job_checkpoints_config(
    job_id: str,
) -> ApiCall[answers.CheckpointsConfig]:
    """How checkpoints are taken."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/checkpoints/config",
        is_repeatable=True,
    )


def get_job_checkpoint_details(
    job_id: str,
    checkpoint_id: int,
) -> ApiCall[answers.CheckpointLine]:
    """A checkpoint in detail."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/checkpoints/details/{part(checkpoint_id)}",
        is_repeatable=True,
    )


def get_job_checkpoint(
    job_id: str,
    number: int,
) -> ApiCall[answers.CheckpointResponse]:
    """A checkpoint with every ack."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/checkpoints/{part(number)}",
        is_repeatable=True,
    )


def verify_checkpoint(
    job_id: str,
    number: int,
) -> ApiCall[answers.VerificationResponse]:
    """Look at every file of a checkpoint."""
    return ApiCall(
        method="POST",
        path=f"/v1/jobs/{part(job_id)}/checkpoints/{part(number)}/verify",
        is_repeatable=True,
        timeout=600,
    )


def get_job_config(
    job_id: str,
) -> ApiCall[answers.JobConfig]:
    """The job's execution settings."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/config",
        is_repeatable=True,
    )


def get_job_events(
    job_id: str,
    *,
    last_event_id: int | None = None,
) -> ApiCall[ServerEvent]:
    """Everything that happens to a job."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/events",
        headers=texts(
            {
                "Last-Event-ID": last_event_id,
            }
        ),
        form=AnswerForm.EVENTS,
        is_repeatable=True,
    )


def get_job_exceptions(
    job_id: str,
    *,
    max_exceptions: int | None = None,
    failure_label_filter: str | None = None,
) -> ApiCall[answers.JobExceptions]:
    """Why attempts failed, the latest first."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/exceptions",
        params=texts(
            {
                "maxExceptions": max_exceptions,
                "failureLabelFilter": failure_label_filter,
            }
        ),
        is_repeatable=True,
    )


def get_job_graph(
    job_id: str,
) -> ApiCall[answers.GraphResponse]:
    """The job graph as submitted."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/graph",
        is_repeatable=True,
    )


def get_job_history(
    job_id: str,
    *,
    limit: int | None = None,
    cursor: int | None = None,
    newest_first: bool | None = None,
) -> ApiCall[answers.HistoryPage]:
    """Everything that happened, with its cause."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/history",
        params=texts(
            {
                "limit": limit,
                "cursor": cursor,
                "newest_first": newest_first,
            }
        ),
        is_repeatable=True,
    )


def get_job_key_groups(
    job_id: str,
) -> ApiCall[answers.KeyGroupsResponse]:
    """Which subtask owns which key groups."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/key-groups",
        is_repeatable=True,
    )


def get_job_logs(
    job_id: str,
    *,
    follow: bool | None = None,
    tail: int | None = None,
    search: str | None = None,
    attempt: int | None = None,
) -> ApiCall[str]:
    """The runner's log."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/logs",
        params=texts(
            {
                "follow": follow,
                "tail": tail,
                "search": search,
                "attempt": attempt,
            }
        ),
        form=AnswerForm.TEXT,
        is_repeatable=True,
    )


def get_job_operations(
    job_id: str,
) -> ApiCall[answers.OperationList]:
    """The operations of a job, the newest first."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/operations",
        is_repeatable=True,
    )


def get_job_plan(
    job_id: str,
    *,
    spark: bool | None = None,
) -> ApiCall[answers.JobPlanResponse]:
    """The plan: tasks and how rows travel between them."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/plan",
        params=texts(
            {
                "spark": spark,
            }
        ),
        is_repeatable=True,
    )


def rescale_job(
    job_id: str,
    *,
    parallelism: int,
    trigger_id: str | None = None,
) -> ApiCall[answers.RequestAccepted]:
    """Rescale a job."""
    return ApiCall(
        method="PATCH",
        path=f"/v1/jobs/{part(job_id)}/rescaling",
        params=texts(
            {
                "parallelism": parallelism,
                "triggerId": own_id(trigger_id),
            }
        ),
        is_repeatable=True,
    )


def get_job_rescaling(
    job_id: str,
    trigger_id: str,
) -> ApiCall[answers.TriggerStatus]:
    """How a rescale went."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/rescaling/{part(trigger_id)}",
        is_repeatable=True,
    )


def get_job_resource_requirements(
    job_id: str,
) -> ApiCall[Mapping[str, answers.VertexRequirements]]:
    """What parallelism the tasks want."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/resource-requirements",
        is_repeatable=True,
    )


def put_job_resource_requirements(
    job_id: str,
    body: Mapping[str, Any],
) -> ApiCall[answers.Nothing]:
    """Ask for another parallelism. Rescale the job to the given upper bound, unless that is its
    parallelism already. The keyed tasks of a job share one parallelism, so all of them must be
    given the same upper bound.
    """
    return ApiCall(
        method="PUT",
        path=f"/v1/jobs/{part(job_id)}/resource-requirements",
        json=dict(body),
        is_repeatable=True,
    )


def get_job_samples(
    job_id: str,
    *,
    since: str | None = None,
    until: str | None = None,
    points: int | None = None,
) -> ApiCall[answers.SamplesResponse]:
    """Throughput, batch times, state and lag over time. Samples are stored every 10 seconds for two
    hours, every minute for two days, every ten minutes for a month.
    """
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/samples",
        params=texts(
            {
                "since": since,
                "until": until,
                "points": points,
            }
        ),
        is_repeatable=True,
    )


def trigger_savepoint(
    job_id: str,
    *,
    format_type: str | None = None,
    trigger_id: str | None = None,
    target_directory: str | None = None,
    cancel_job: bool | None = None,
) -> ApiCall[answers.RequestAccepted]:
    """Take a savepoint."""
    return ApiCall(
        method="POST",
        path=f"/v1/jobs/{part(job_id)}/savepoints",
        json=given(
            {
                "formatType": format_type,
                "triggerId": own_id(trigger_id),
                "target-directory": target_directory,
                "cancel-job": cancel_job,
            }
        ),
        is_repeatable=True,
    )


def get_job_savepoint(
    job_id: str,
    trigger_id: str,
) -> ApiCall[answers.TriggerStatus]:
    """How a savepoint went."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/savepoints/{part(trigger_id)}",
        is_repeatable=True,
    )


def get_job_states(
    job_id: str,
) -> ApiCall[answers.StateList]:
    """The states of a job."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/state",
        is_repeatable=True,
        timeout=400,
    )


def get_job_state_rows(
    job_id: str,
    vertex: str,
    name: str,
    *,
    limit: int | None = None,
    region: str | None = None,
    cursor: str | None = None,
) -> ApiCall[answers.RowPage]:
    """The rows of a state, by page."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/state/{part(vertex)}/{part(name)}",
        params=texts(
            {
                "limit": limit,
                "region": region,
                "cursor": cursor,
            }
        ),
        is_repeatable=True,
        timeout=400,
    )


def get_job_state_key_groups(
    job_id: str,
    vertex: str,
    name: str,
    *,
    region: str | None = None,
) -> ApiCall[answers.KeyGroupHistogram]:
    """Rows and bytes a key group."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/state/{part(vertex)}/{part(name)}/key-groups",
        params=texts(
            {
                "region": region,
            }
        ),
        is_repeatable=True,
        timeout=400,
    )


def get_job_state_key(
    job_id: str,
    vertex: str,
    name: str,
    key: str,
    *,
    limit: int | None = None,
    region: str | None = None,
    cursor: str | None = None,
) -> ApiCall[answers.KeyResponse]:
    """The rows of a key."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/state/{part(vertex)}/{part(name)}/{part(key)}",
        params=texts(
            {
                "limit": limit,
                "region": region,
                "cursor": cursor,
            }
        ),
        is_repeatable=True,
        timeout=400,
    )


def get_job_status(
    job_id: str,
) -> ApiCall[answers.StatusResponse]:
    """Desired and observed state, and why."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/status",
        is_repeatable=True,
    )


def stop_job(
    job_id: str,
    *,
    format_type: str | None = None,
    trigger_id: str | None = None,
    target_directory: str | None = None,
    drain: bool | None = None,
) -> ApiCall[answers.RequestAccepted]:
    """Stop with a savepoint."""
    return ApiCall(
        method="POST",
        path=f"/v1/jobs/{part(job_id)}/stop",
        json=given(
            {
                "formatType": format_type,
                "triggerId": own_id(trigger_id),
                "targetDirectory": target_directory,
                "drain": drain,
            }
        ),
        is_repeatable=True,
    )


def upgrade_job(
    job_id: str,
    graph: Mapping[str, Any],
    *,
    parallelism: int | None = None,
    allow_non_restored_state: bool | None = None,
    dry_run: bool | None = None,
    idempotency_key: str | None = None,
) -> ApiCall[answers.PlanResponse | answers.UpgradeAccepted]:
    """Continue a running job with another graph. A dry run answers 200 with the plan: what changes,
    which state is kept, what Spark reports.
    """
    return ApiCall(
        method="POST",
        path=f"/v1/jobs/{part(job_id)}/upgrade",
        params=texts(
            {
                "parallelism": parallelism,
                "allow_non_restored_state": allow_non_restored_state,
                "dry_run": dry_run,
            }
        ),
        headers=texts(
            {
                "idempotency-key": own_id(idempotency_key),
            }
        ),
        json=dict(graph),
        is_repeatable=True,
        timeout=300,
    )


def get_job_vertex_accumulators(
    job_id: str,
    vertex_id: str,
) -> ApiCall[answers.TaskAccumulators]:
    """What users' code counted in a task."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/vertices/{part(vertex_id)}/accumulators",
        is_repeatable=True,
    )


def get_operation(
    operation_id: str,
) -> ApiCall[answers.OperationResponse]:
    """The progress of an operation."""
    return ApiCall(
        method="GET",
        path=f"/v1/operations/{part(operation_id)}",
        is_repeatable=True,
    )


def get_overview() -> ApiCall[answers.ClusterOverview]:
    """Runners, slots and jobs by state."""
    return ApiCall(
        method="GET",
        path="/v1/overview",
        is_repeatable=True,
    )


def get_runners(
    *,
    limit: int | None = None,
    alive: bool | None = None,
) -> ApiCall[answers.RunnerPage]:
    """Who runs what."""
    return ApiCall(
        method="GET",
        path="/v1/runners",
        params=texts(
            {
                "limit": limit,
                "alive": alive,
            }
        ),
        is_repeatable=True,
    )


def trigger_savepoint_disposal(
    *,
    savepoint_path: str,
) -> ApiCall[answers.RequestAccepted]:
    """Dispose of one."""
    return ApiCall(
        method="POST",
        path="/v1/savepoint-disposal",
        json=given(
            {
                "savepoint-path": savepoint_path,
            }
        ),
        is_repeatable=True,
    )


def get_savepoint_disposal(
    trigger_id: str,
) -> ApiCall[answers.TriggerStatus]:
    """How a disposal went."""
    return ApiCall(
        method="GET",
        path=f"/v1/savepoint-disposal/{part(trigger_id)}",
        is_repeatable=True,
    )


def get_savepoints(
    *,
    limit: int | None = None,
    cursor: str | None = None,
) -> ApiCall[answers.SavepointPage]:
    """All savepoints, the newest first."""
    return ApiCall(
        method="GET",
        path="/v1/savepoints",
        params=texts(
            {
                "limit": limit,
                "cursor": cursor,
            }
        ),
        is_repeatable=True,
    )


def adopt_savepoint(
    *,
    path: str,
    graph: Mapping[str, Any],
    parallelism: int | None = None,
    target_directory: str | None = None,
) -> ApiCall[answers.SavepointResponse]:
    """Make a savepoint of the checkpoint of a plain Spark query."""
    return ApiCall(
        method="POST",
        path="/v1/savepoints/adopt",
        json=given(
            {
                "path": path,
                "graph": graph,
                "parallelism": parallelism,
                "target_directory": target_directory,
            }
        ),
        timeout=3600,
    )


def dispose_savepoint(
    savepoint_id: str,
) -> ApiCall[answers.SavepointResponse]:
    """Dispose of a savepoint."""
    return ApiCall(
        method="DELETE",
        path=f"/v1/savepoints/{part(savepoint_id)}",
        is_repeatable=True,
    )


def get_savepoint(
    savepoint_id: str,
) -> ApiCall[answers.SavepointResponse]:
    """A savepoint."""
    return ApiCall(
        method="GET",
        path=f"/v1/savepoints/{part(savepoint_id)}",
        is_repeatable=True,
    )


def label_savepoint(
    savepoint_id: str,
    *,
    labels: Mapping[str, str | None],
) -> ApiCall[answers.SavepointResponse]:
    """Label a savepoint."""
    return ApiCall(
        method="PATCH",
        path=f"/v1/savepoints/{part(savepoint_id)}",
        json=given(
            {
                "labels": labels,
            }
        ),
        is_repeatable=True,
    )


def get_savepoint_states(
    savepoint_id: str,
) -> ApiCall[answers.StateList]:
    """The states in a savepoint."""
    return ApiCall(
        method="GET",
        path=f"/v1/savepoints/{part(savepoint_id)}/state",
        is_repeatable=True,
        timeout=400,
    )


def get_savepoint_state_rows(
    savepoint_id: str,
    vertex: str,
    name: str,
    *,
    limit: int | None = None,
    region: str | None = None,
    cursor: str | None = None,
) -> ApiCall[answers.RowPage]:
    """The rows of a state, by page."""
    return ApiCall(
        method="GET",
        path=f"/v1/savepoints/{part(savepoint_id)}/state/{part(vertex)}/{part(name)}",
        params=texts(
            {
                "limit": limit,
                "region": region,
                "cursor": cursor,
            }
        ),
        is_repeatable=True,
        timeout=400,
    )


def get_savepoint_state_key_groups(
    savepoint_id: str,
    vertex: str,
    name: str,
    *,
    region: str | None = None,
) -> ApiCall[answers.KeyGroupHistogram]:
    """Rows and bytes a key group."""
    return ApiCall(
        method="GET",
        path=f"/v1/savepoints/{part(savepoint_id)}/state/{part(vertex)}/{part(name)}/key-groups",
        params=texts(
            {
                "region": region,
            }
        ),
        is_repeatable=True,
        timeout=400,
    )


def get_savepoint_state_key(
    savepoint_id: str,
    vertex: str,
    name: str,
    key: str,
    *,
    limit: int | None = None,
    region: str | None = None,
    cursor: str | None = None,
) -> ApiCall[answers.KeyResponse]:
    """The rows of a key."""
    return ApiCall(
        method="GET",
        path=f"/v1/savepoints/{part(savepoint_id)}/state/{part(vertex)}/{part(name)}/{part(key)}",
        params=texts(
            {
                "limit": limit,
                "region": region,
                "cursor": cursor,
            }
        ),
        is_repeatable=True,
        timeout=400,
    )


def verify_savepoint(
    savepoint_id: str,
) -> ApiCall[answers.VerificationResponse]:
    """Compare every file of a savepoint with its checksum."""
    return ApiCall(
        method="POST",
        path=f"/v1/savepoints/{part(savepoint_id)}/verify",
        is_repeatable=True,
        timeout=600,
    )


def describe_script(
    *,
    script: str,
    arguments: list[str] | None = None,
    artifacts: list[str] | None = None,
    name: str | None = None,
    parallelism: int | None = None,
    spark: Mapping[str, str] | None = None,
) -> ApiCall[answers.ScriptResponse]:
    """The job graph of a PySpark program. Run the script up to where it waits for its queries. No
    query is started, and nothing is stored.
    """
    return ApiCall(
        method="POST",
        path="/v1/scripts/describe",
        json=given(
            {
                "script": script,
                "arguments": arguments,
                "artifacts": artifacts,
                "name": name,
                "parallelism": parallelism,
                "spark": spark,
            }
        ),
        is_repeatable=True,
        timeout=300,
    )


def get_tokens() -> ApiCall[answers.TokenList]:
    """All tokens, the newest first, without their secret text."""
    return ApiCall(
        method="GET",
        path="/v1/tokens",
        is_repeatable=True,
    )


def create_token(
    *,
    name: str,
    role: Literal["viewer", "operator", "developer", "admin"],
    expires_in_ms: int | None = None,
) -> ApiCall[answers.NewTokenResponse]:
    """Create a token."""
    return ApiCall(
        method="POST",
        path="/v1/tokens",
        json=given(
            {
                "name": name,
                "role": role,
                "expires_in_ms": expires_in_ms,
            }
        ),
    )


def revoke_token(
    name: str,
) -> ApiCall[answers.TokenResponse]:
    """Revoke a token."""
    return ApiCall(
        method="DELETE",
        path=f"/v1/tokens/{part(name)}",
        is_repeatable=True,
    )


def get_whoami() -> ApiCall[answers.WhoAmI]:
    """The caller's name and role."""
    return ApiCall(
        method="GET",
        path="/v1/whoami",
        is_repeatable=True,
    )


class ApiOperations:
    """Methods that send its request, one for each operation."""

    get_healthz = Method(get_healthz)
    get_metrics = Method(get_metrics)
    get_readyz = Method(get_readyz)
    get_artifacts = Method(get_artifacts)
    upload_artifact = Method(upload_artifact)
    delete_artifact = Method(delete_artifact)
    get_artifact = Method(get_artifact)
    get_audit = Method(get_audit)
    get_config = Method(get_config)
    get_events = Events(get_events)
    collect_garbage = Method(collect_garbage)
    get_inspector = Method(get_inspector)
    get_jobmanagers = Method(get_jobmanagers)
    get_jobs = Method(get_jobs)
    submit_job = Method(submit_job)
    get_jobs_overview = Method(get_jobs_overview)
    get_jobs_summary = Method(get_jobs_summary)
    get_job = Method(get_job)
    cancel_job = Method(cancel_job)
    get_job_accumulators = Method(get_job_accumulators)
    get_job_checkpoints = Method(get_job_checkpoints)
    trigger_checkpoint = Method(trigger_checkpoint)
    get_job_checkpoints_config = Method(get_job_checkpoints_config)
    get_job_checkpoint_details = Method(get_job_checkpoint_details)
    get_job_checkpoint = Method(get_job_checkpoint)
    verify_checkpoint = Method(verify_checkpoint)
    get_job_config = Method(get_job_config)
    get_job_events = Events(get_job_events)
    get_job_exceptions = Method(get_job_exceptions)
    get_job_graph = Method(get_job_graph)
    get_job_history = Method(get_job_history)
    get_job_key_groups = Method(get_job_key_groups)
    get_job_logs = Method(get_job_logs)
    get_job_operations = Method(get_job_operations)
    get_job_plan = Method(get_job_plan)
    rescale_job = Method(rescale_job)
    get_job_rescaling = Method(get_job_rescaling)
    get_job_resource_requirements = Method(get_job_resource_requirements)
    put_job_resource_requirements = Method(put_job_resource_requirements)
    get_job_samples = Method(get_job_samples)
    trigger_savepoint = Method(trigger_savepoint)
    get_job_savepoint = Method(get_job_savepoint)
    get_job_states = Method(get_job_states)
    get_job_state_rows = Method(get_job_state_rows)
    get_job_state_key_groups = Method(get_job_state_key_groups)
    get_job_state_key = Method(get_job_state_key)
    get_job_status = Method(get_job_status)
    stop_job = Method(stop_job)
    upgrade_job = Method(upgrade_job)
    get_job_vertex_accumulators = Method(get_job_vertex_accumulators)
    get_operation = Method(get_operation)
    get_overview = Method(get_overview)
    get_runners = Method(get_runners)
    trigger_savepoint_disposal = Method(trigger_savepoint_disposal)
    get_savepoint_disposal = Method(get_savepoint_disposal)
    get_savepoints = Method(get_savepoints)
    adopt_savepoint = Method(adopt_savepoint)
    dispose_savepoint = Method(dispose_savepoint)
    get_savepoint = Method(get_savepoint)
    label_savepoint = Method(label_savepoint)
    get_savepoint_states = Method(get_savepoint_states)
    get_savepoint_state_rows = Method(get_savepoint_state_rows)
    get_savepoint_state_key_groups = Method(get_savepoint_state_key_groups)
    get_savepoint_state_key = Method(get_savepoint_state_key)
    verify_savepoint = Method(verify_savepoint)
    describe_script = Method(describe_script)
    get_tokens = Method(get_tokens)
    create_token = Method(create_token)
    revoke_token = Method(revoke_token)
    get_whoami = Method(get_whoami)


class AsyncApiOperations:
    """Methods that send its request and are awaited, one for each operation."""

    get_healthz = AsyncMethod(get_healthz)
    get_metrics = AsyncMethod(get_metrics)
    get_readyz = AsyncMethod(get_readyz)
    get_artifacts = AsyncMethod(get_artifacts)
    upload_artifact = AsyncMethod(upload_artifact)
    delete_artifact = AsyncMethod(delete_artifact)
    get_artifact = AsyncMethod(get_artifact)
    get_audit = AsyncMethod(get_audit)
    get_config = AsyncMethod(get_config)
    get_events = AsyncEvents(get_events)
    collect_garbage = AsyncMethod(collect_garbage)
    get_inspector = AsyncMethod(get_inspector)
    get_jobmanagers = AsyncMethod(get_jobmanagers)
    get_jobs = AsyncMethod(get_jobs)
    submit_job = AsyncMethod(submit_job)
    get_jobs_overview = AsyncMethod(get_jobs_overview)
    get_jobs_summary = AsyncMethod(get_jobs_summary)
    get_job = AsyncMethod(get_job)
    cancel_job = AsyncMethod(cancel_job)
    get_job_accumulators = AsyncMethod(get_job_accumulators)
    get_job_checkpoints = AsyncMethod(get_job_checkpoints)
    trigger_checkpoint = AsyncMethod(trigger_checkpoint)
    get_job_checkpoints_config = AsyncMethod(get_job_checkpoints_config)
    get_job_checkpoint_details = AsyncMethod(get_job_checkpoint_details)
    get_job_checkpoint = AsyncMethod(get_job_checkpoint)
    verify_checkpoint = AsyncMethod(verify_checkpoint)
    get_job_config = AsyncMethod(get_job_config)
    get_job_events = AsyncEvents(get_job_events)
    get_job_exceptions = AsyncMethod(get_job_exceptions)
    get_job_graph = AsyncMethod(get_job_graph)
    get_job_history = AsyncMethod(get_job_history)
    get_job_key_groups = AsyncMethod(get_job_key_groups)
    get_job_logs = AsyncMethod(get_job_logs)
    get_job_operations = AsyncMethod(get_job_operations)
    get_job_plan = AsyncMethod(get_job_plan)
    rescale_job = AsyncMethod(rescale_job)
    get_job_rescaling = AsyncMethod(get_job_rescaling)
    get_job_resource_requirements = AsyncMethod(get_job_resource_requirements)
    put_job_resource_requirements = AsyncMethod(put_job_resource_requirements)
    get_job_samples = AsyncMethod(get_job_samples)
    trigger_savepoint = AsyncMethod(trigger_savepoint)
    get_job_savepoint = AsyncMethod(get_job_savepoint)
    get_job_states = AsyncMethod(get_job_states)
    get_job_state_rows = AsyncMethod(get_job_state_rows)
    get_job_state_key_groups = AsyncMethod(get_job_state_key_groups)
    get_job_state_key = AsyncMethod(get_job_state_key)
    get_job_status = AsyncMethod(get_job_status)
    stop_job = AsyncMethod(stop_job)
    upgrade_job = AsyncMethod(upgrade_job)
    get_job_vertex_accumulators = AsyncMethod(get_job_vertex_accumulators)
    get_operation = AsyncMethod(get_operation)
    get_overview = AsyncMethod(get_overview)
    get_runners = AsyncMethod(get_runners)
    trigger_savepoint_disposal = AsyncMethod(trigger_savepoint_disposal)
    get_savepoint_disposal = AsyncMethod(get_savepoint_disposal)
    get_savepoints = AsyncMethod(get_savepoints)
    adopt_savepoint = AsyncMethod(adopt_savepoint)
    dispose_savepoint = AsyncMethod(dispose_savepoint)
    get_savepoint = AsyncMethod(get_savepoint)
    label_savepoint = AsyncMethod(label_savepoint)
    get_savepoint_states = AsyncMethod(get_savepoint_states)
    get_savepoint_state_rows = AsyncMethod(get_savepoint_state_rows)
    get_savepoint_state_key_groups = AsyncMethod(get_savepoint_state_key_groups)
    get_savepoint_state_key = AsyncMethod(get_savepoint_state_key)
    verify_savepoint = AsyncMethod(verify_savepoint)
    describe_script = AsyncMethod(describe_script)
    get_tokens = AsyncMethod(get_tokens)
    create_token = AsyncMethod(create_token)
    revoke_token = AsyncMethod(revoke_token)
    get_whoami = AsyncMethod(get_whoami)
