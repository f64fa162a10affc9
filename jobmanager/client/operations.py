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


def get_applications_overview() -> ApiCall[answers.Applications]:
    """All applications."""
    return ApiCall(
        method="GET",
        path="/v1/applications/overview",
        is_repeatable=True,
    )


def get_application(
    application_id: str,
) -> ApiCall[answers.ApplicationPage]:
    """An application."""
    return ApiCall(
        method="GET",
        path=f"/v1/applications/{part(application_id)}",
        is_repeatable=True,
    )


def post_application_cancel(
    application_id: str,
) -> ApiCall[answers.Nothing]:
    """Cancel an application: its job."""
    return ApiCall(
        method="POST",
        path=f"/v1/applications/{part(application_id)}/cancel",
    )


def get_application_exceptions(
    application_id: str,
) -> ApiCall[answers.ApplicationExceptions]:
    """Why attempts of an application's job failed, the latest first."""
    return ApiCall(
        method="GET",
        path=f"/v1/applications/{part(application_id)}/exceptions",
        is_repeatable=True,
    )


def get_application_jobmanager_config(
    application_id: str,
) -> ApiCall[list[answers.ConfigurationEntry]]:
    """The server's settings, as they hold for an application."""
    return ApiCall(
        method="GET",
        path=f"/v1/applications/{part(application_id)}/jobmanager/config",
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


def delete_cluster() -> ApiCall[answers.Nothing]:
    """Ends no server."""
    return ApiCall(
        method="DELETE",
        path="/v1/cluster",
        is_repeatable=True,
    )


def get_config() -> ApiCall[answers.WebConfig]:
    """Settings of the web interface."""
    return ApiCall(
        method="GET",
        path="/v1/config",
        is_repeatable=True,
    )


def get_datasets() -> ApiCall[answers.DataSets]:
    """Cluster data sets, none."""
    return ApiCall(
        method="GET",
        path="/v1/datasets",
        is_repeatable=True,
    )


def get_datasets_delete(
    trigger_id: str,
) -> ApiCall[answers.TriggerStatus]:
    """How the deletion of a data set went."""
    return ApiCall(
        method="GET",
        path=f"/v1/datasets/delete/{part(trigger_id)}",
        is_repeatable=True,
    )


def delete_dataset(
    dataset_id: str,
) -> ApiCall[answers.RequestAccepted]:
    """Delete a data set, none."""
    return ApiCall(
        method="DELETE",
        path=f"/v1/datasets/{part(dataset_id)}",
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


def get_jars() -> ApiCall[answers.JarList]:
    """Files that can be run."""
    return ApiCall(
        method="GET",
        path="/v1/jars",
        is_repeatable=True,
    )


def post_jars_upload(
    *,
    jarfile: tuple[str, bytes],
) -> ApiCall[answers.JarUploaded]:
    """Upload a file that can be run. As a form with one file: a job graph (.json, .yaml), a PySpark
    program (.py), or a zip of Python packages with job.yaml at its top (.zip, .whl, .jar).
    """
    return ApiCall(
        method="POST",
        path="/v1/jars/upload",
        files={"jarfile": jarfile},
    )


def delete_jar(
    jar_id: str,
) -> ApiCall[answers.Nothing]:
    """Delete an uploaded file. Jobs that the file was run as go on."""
    return ApiCall(
        method="DELETE",
        path=f"/v1/jars/{part(jar_id)}",
        is_repeatable=True,
    )


def get_jar_plan(
    jar_id: str,
    *,
    program_arg: str | None = None,
    program_args: str | None = None,
    entry_class: str | None = None,
    parallelism: int | None = None,
    allow_non_restored_state: bool | None = None,
    savepoint_path: str | None = None,
) -> ApiCall[answers.JobPlanResponse]:
    """The plan of an uploaded file."""
    return ApiCall(
        method="GET",
        path=f"/v1/jars/{part(jar_id)}/plan",
        params=texts(
            {
                "programArg": program_arg,
                "program-args": program_args,
                "entry-class": entry_class,
                "parallelism": parallelism,
                "allowNonRestoredState": allow_non_restored_state,
                "savepointPath": savepoint_path,
            }
        ),
        is_repeatable=True,
    )


def post_jar_plan(
    jar_id: str,
    *,
    program_arg: str | None = None,
    allow_non_restored_state: bool | None = None,
    savepoint_path: str | None = None,
    entry_class: str | None = None,
    program_args: str | None = None,
    program_args_list: list[str] | None = None,
    parallelism: int | None = None,
    job_id: str | None = None,
    flink_configuration: Mapping[str, str] | None = None,
) -> ApiCall[answers.JobPlanResponse]:
    """The plan of an uploaded file."""
    return ApiCall(
        method="POST",
        path=f"/v1/jars/{part(jar_id)}/plan",
        params=texts(
            {
                "programArg": program_arg,
                "allowNonRestoredState": allow_non_restored_state,
                "savepointPath": savepoint_path,
            }
        ),
        json=given(
            {
                "entryClass": entry_class,
                "programArgs": program_args,
                "programArgsList": program_args_list,
                "parallelism": parallelism,
                "jobId": job_id,
                "flinkConfiguration": flink_configuration,
            }
        ),
    )


def post_jar_run(
    jar_id: str,
    *,
    program_arg: str | None = None,
    entry_class: str | None = None,
    program_args: str | None = None,
    program_args_list: list[str] | None = None,
    parallelism: int | None = None,
    job_id: str | None = None,
    flink_configuration: Mapping[str, str] | None = None,
    allow_non_restored_state: bool | None = None,
    savepoint_path: str | None = None,
    restore_mode: str | None = None,
    claim_mode: str | None = None,
) -> ApiCall[answers.JarStarted]:
    """Run an uploaded file."""
    return ApiCall(
        method="POST",
        path=f"/v1/jars/{part(jar_id)}/run",
        params=texts(
            {
                "programArg": program_arg,
            }
        ),
        json=given(
            {
                "entryClass": entry_class,
                "programArgs": program_args,
                "programArgsList": program_args_list,
                "parallelism": parallelism,
                "jobId": job_id,
                "flinkConfiguration": flink_configuration,
                "allowNonRestoredState": allow_non_restored_state,
                "savepointPath": savepoint_path,
                "restoreMode": restore_mode,
                "claimMode": claim_mode,
            }
        ),
    )


def post_jar_run_application(
    jar_id: str,
    *,
    program_arg: str | None = None,
    entry_class: str | None = None,
    program_args: str | None = None,
    program_args_list: list[str] | None = None,
    parallelism: int | None = None,
    job_id: str | None = None,
    flink_configuration: Mapping[str, str] | None = None,
    allow_non_restored_state: bool | None = None,
    savepoint_path: str | None = None,
    restore_mode: str | None = None,
    claim_mode: str | None = None,
) -> ApiCall[answers.ApplicationStarted]:
    """Run an uploaded file. The id of the application is that of its one job."""
    return ApiCall(
        method="POST",
        path=f"/v1/jars/{part(jar_id)}/run-application",
        params=texts(
            {
                "programArg": program_arg,
            }
        ),
        json=given(
            {
                "entryClass": entry_class,
                "programArgs": program_args,
                "programArgsList": program_args_list,
                "parallelism": parallelism,
                "jobId": job_id,
                "flinkConfiguration": flink_configuration,
                "allowNonRestoredState": allow_non_restored_state,
                "savepointPath": savepoint_path,
                "restoreMode": restore_mode,
                "claimMode": claim_mode,
            }
        ),
    )


def get_jobmanager_config() -> ApiCall[list[answers.ConfigurationEntry]]:
    """The server's settings. Settings of Headgate by their own names, without secrets, and those of
    Flink that clients look for.
    """
    return ApiCall(
        method="GET",
        path="/v1/jobmanager/config",
        is_repeatable=True,
    )


def get_jobmanager_environment() -> ApiCall[answers.PythonEnvironment]:
    """The Python that runs the server."""
    return ApiCall(
        method="GET",
        path="/v1/jobmanager/environment",
        is_repeatable=True,
    )


def get_jobmanager_log() -> ApiCall[str]:
    """The server's log file, none."""
    return ApiCall(
        method="GET",
        path="/v1/jobmanager/log",
        form=AnswerForm.TEXT,
        is_repeatable=True,
    )


def get_jobmanager_logs() -> ApiCall[answers.LogList]:
    """The server's log files, none. The server writes its log to standard error."""
    return ApiCall(
        method="GET",
        path="/v1/jobmanager/logs",
        is_repeatable=True,
    )


def get_jobmanager_log_by_logname(
    logname: str,
) -> ApiCall[str]:
    """One of the server's log files, none."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobmanager/logs/{part(logname)}",
        form=AnswerForm.TEXT,
        is_repeatable=True,
    )


def get_jobmanager_metrics(
    *,
    get: str | None = None,
) -> ApiCall[list[answers.MetricValue]]:
    """Figures of this server."""
    return ApiCall(
        method="GET",
        path="/v1/jobmanager/metrics",
        params=texts(
            {
                "get": get,
            }
        ),
        is_repeatable=True,
    )


def get_jobmanager_profiler() -> ApiCall[answers.Profilings]:
    """Profiler runs, none."""
    return ApiCall(
        method="GET",
        path="/v1/jobmanager/profiler",
        is_repeatable=True,
    )


def post_jobmanager_profiler() -> ApiCall[answers.Nothing]:
    """Profiles nothing."""
    return ApiCall(
        method="POST",
        path="/v1/jobmanager/profiler",
    )


def get_jobmanager_stdout() -> ApiCall[str]:
    """The server's output file, none."""
    return ApiCall(
        method="GET",
        path="/v1/jobmanager/stdout",
        form=AnswerForm.TEXT,
        is_repeatable=True,
    )


def get_jobmanager_thread_dump(
    *,
    mode: str | None = None,
) -> ApiCall[answers.ThreadDump]:
    """What the server's threads do."""
    return ApiCall(
        method="GET",
        path="/v1/jobmanager/thread-dump",
        params=texts(
            {
                "mode": mode,
            }
        ),
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


def get_jobs_metrics(
    *,
    get: str | None = None,
    agg: str | None = None,
    jobs: str | None = None,
) -> ApiCall[list[answers.AggregatedMetric]]:
    """Figures of several jobs together."""
    return ApiCall(
        method="GET",
        path="/v1/jobs/metrics",
        params=texts(
            {
                "get": get,
                "agg": agg,
                "jobs": jobs,
            }
        ),
        is_repeatable=True,
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
    label: list[str] | None = None,
    limit: int | None = None,
    cursor: str | None = None,
    if_none_match: str | None = None,
) -> ApiCall[answers.SummaryPage]:
    """Jobs, a line each, the newest first."""
    return ApiCall(
        method="GET",
        path="/v1/jobs/summary",
        params=texts(
            {
                "state": state,
                "q": q,
                "job": job,
                "label": label,
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
    *,
    checkpoint_type: str | None = None,
    trigger_id: str | None = None,
) -> ApiCall[answers.CheckpointTriggered]:
    """Take a checkpoint now. Checkpoints are always incremental, whatever `checkpointType` says. A
    repetition with the same `triggerId` is the same checkpoint.
    """
    return ApiCall(
        method="POST",
        path=f"/v1/jobs/{part(job_id)}/checkpoints",
        json=given(
            {
                "checkpointType": checkpoint_type,
                "triggerId": own_id(trigger_id),
            }
        ),
        is_repeatable=True,
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


def get_job_checkpoints_detail_subtask(
    job_id: str,
    checkpoint_id: int,
    vertex_id: str,
) -> ApiCall[answers.TaskCheckpointDetails]:
    """A task's subtasks in a checkpoint."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/checkpoints/details/{part(checkpoint_id)}/subtasks/{part(vertex_id)}",
        is_repeatable=True,
    )


def get_job_checkpoint(
    job_id: str,
    number: str,
) -> ApiCall[answers.CheckpointResponse | answers.CheckpointTriggerStatus]:
    """A checkpoint with every ack; or how a request for a checkpoint went. With the number of a
    checkpoint, the checkpoint; with the 32 hexadecimal digits of a `request-id`, what Flink answers
    about the request.
    """
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


def patch_job_client_heartbeat(
    job_id: str,
    *,
    expired_timestamp: int | None = None,
) -> ApiCall[answers.Nothing]:
    """A client says that it is still there. A job does not end when its client is gone, so nothing
    is noted.
    """
    return ApiCall(
        method="PATCH",
        path=f"/v1/jobs/{part(job_id)}/clientHeartbeat",
        json=given(
            {
                "expiredTimestamp": expired_timestamp,
            }
        ),
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


def get_job_execution_result(
    job_id: str,
) -> ApiCall[answers.ExecutionResultResponse]:
    """How a job ended."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/execution-result",
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
    kind: list[str] | None = None,
    since: str | None = None,
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
                "kind": kind,
                "since": since,
            }
        ),
        is_repeatable=True,
    )


def get_job_jobmanager_config(
    job_id: str,
) -> ApiCall[list[answers.ConfigurationEntry]]:
    """The server's settings, as they hold for a job."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/jobmanager/config",
        is_repeatable=True,
    )


def get_job_jobmanager_environment(
    job_id: str,
) -> ApiCall[answers.PythonEnvironment]:
    """The Python that runs the server."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/jobmanager/environment",
        is_repeatable=True,
    )


def get_job_jobmanager_log_url(
    job_id: str,
) -> ApiCall[answers.LogUrl]:
    """Where the log of a job is. That of its runner: the server keeps no log file."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/jobmanager/log-url",
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


def get_job_lag(
    job_id: str,
) -> ApiCall[answers.LagResponse]:
    """Whether a job catches up with its input, and when. The trend of the last ten minutes;
    `unknown` without a minute of samples.
    """
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/lag",
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


def get_job_metrics(
    job_id: str,
    *,
    get: str | None = None,
) -> ApiCall[list[answers.MetricValue]]:
    """Figures of a job."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/metrics",
        params=texts(
            {
                "get": get,
            }
        ),
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


def pause_job(
    job_id: str,
) -> ApiCall[answers.JobState]:
    """Pause a job between two batches. The batch under way is finished; then nothing runs. State,
    output and, for an hour, the runner with its Spark session are kept. A paused job stays so until
    it is resumed or cancelled, whatever happens to its runner and its server. A repetition changes
    nothing.
    """
    return ApiCall(
        method="POST",
        path=f"/v1/jobs/{part(job_id)}/pause",
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


def get_job_rescales_config(
    job_id: str,
) -> ApiCall[answers.RescaleConfig]:
    """How rescales are decided. A rescale begins when it is asked for: nothing is waited for, and
    nothing rescales a job by itself.
    """
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/rescales/config",
        is_repeatable=True,
    )


def get_job_rescales_detail(
    job_id: str,
    rescaleuu_id: str,
) -> ApiCall[answers.RescaleDetails]:
    """A rescale."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/rescales/details/{part(rescaleuu_id)}",
        is_repeatable=True,
    )


def get_job_rescales_history(
    job_id: str,
) -> ApiCall[list[answers.RescaleDetails]]:
    """The last rescales, the newest first."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/rescales/history",
        is_repeatable=True,
    )


def get_job_rescales_overview(
    job_id: str,
) -> ApiCall[answers.RescalesOverview]:
    """How many rescales there were, and the latest."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/rescales/overview",
        is_repeatable=True,
    )


def get_job_rescales_summary(
    job_id: str,
) -> ApiCall[answers.RescalesSummary]:
    """How long rescales took."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/rescales/summary",
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
    """Ask for another parallelism. Rescale the job to the largest upper bound of its keyed tasks,
    which share one parallelism, rounded down to a divisor of max_parallelism; unless that is its
    parallelism already.
    """
    return ApiCall(
        method="PUT",
        path=f"/v1/jobs/{part(job_id)}/resource-requirements",
        json=dict(body),
        is_repeatable=True,
    )


def resume_job(
    job_id: str,
) -> ApiCall[answers.JobState]:
    """Let a paused job continue. From its last batch, on the runner that has waited, or else on a
    new one. A job that is not paused is left alone.
    """
    return ApiCall(
        method="POST",
        path=f"/v1/jobs/{part(job_id)}/resume",
        is_repeatable=True,
    )


def get_job_revisions(
    job_id: str,
) -> ApiCall[answers.RevisionList]:
    """What each upgrade and rescale changed. The newest first. Changes that failed or were rolled
    back are not among them.
    """
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/revisions",
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


def get_job_sink_rows(
    job_id: str,
    vertex: str,
    *,
    limit: int | None = None,
) -> ApiCall[answers.SinkRowsResponse]:
    """The newest rows of a sink. For sinks with the connectors `files`, `delta` and `kafka` that
    need no secret. The job may be running or have ended.
    """
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/sinks/{part(vertex)}/rows",
        params=texts(
            {
                "limit": limit,
            }
        ),
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


def get_job_taskmanager_log_url(
    job_id: str,
    taskmanager_id: str,
) -> ApiCall[answers.LogUrl]:
    """Where a runner's log is."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/taskmanagers/{part(taskmanager_id)}/log-url",
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


def get_job_vertex(
    job_id: str,
    vertex_id: str,
) -> ApiCall[answers.TaskDetails]:
    """A task and its subtasks."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/vertices/{part(vertex_id)}",
        is_repeatable=True,
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


def get_job_vertex_backpressure(
    job_id: str,
    vertex_id: str,
) -> ApiCall[answers.TaskBackPressure]:
    """Whether a task waits for those after it. A task is under back-pressure while a batch waits
    for its sink: all its tasks are done, and the next batch cannot begin. While Spark's tasks run,
    none of them waits for the tasks after it.
    """
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/vertices/{part(vertex_id)}/backpressure",
        is_repeatable=True,
    )


def get_job_vertex_flamegraph(
    job_id: str,
    vertex_id: str,
    *,
    type: Literal["FULL", "ON_CPU", "OFF_CPU", "full", "on_cpu", "off_cpu"] | None = None,
    subtaskindex: int | None = None,
) -> ApiCall[answers.FlameGraph]:
    """Flame graphs, which there are none of. As Flink answers when `rest.flamegraph.enabled` is
    off.
    """
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/vertices/{part(vertex_id)}/flamegraph",
        params=texts(
            {
                "type": type,
                "subtaskindex": subtaskindex,
            }
        ),
        is_repeatable=True,
    )


def get_job_vertex_jm_operator_metrics(
    job_id: str,
    vertex_id: str,
    *,
    get: str | None = None,
) -> ApiCall[list[answers.MetricValue]]:
    """Figures of a task's operators on the JobManager, which there are none of."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/vertices/{part(vertex_id)}/jm-operator-metrics",
        params=texts(
            {
                "get": get,
            }
        ),
        is_repeatable=True,
    )


def get_job_vertex_metrics(
    job_id: str,
    vertex_id: str,
    *,
    get: str | None = None,
) -> ApiCall[list[answers.MetricValue]]:
    """Figures of a task's subtasks."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/vertices/{part(vertex_id)}/metrics",
        params=texts(
            {
                "get": get,
            }
        ),
        is_repeatable=True,
    )


def get_job_vertex_subtasks_accumulators(
    job_id: str,
    vertex_id: str,
) -> ApiCall[answers.AllSubtaskAccumulators]:
    """What users' code counted in a task, by subtask. Values are added up over subtasks before they
    are reported, so no subtask has its own.
    """
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/vertices/{part(vertex_id)}/subtasks/accumulators",
        is_repeatable=True,
    )


def get_job_vertex_subtasks_metrics(
    job_id: str,
    vertex_id: str,
    *,
    get: str | None = None,
    agg: str | None = None,
    subtasks: str | None = None,
) -> ApiCall[list[answers.AggregatedMetric]]:
    """Figures of a task's subtasks together."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/vertices/{part(vertex_id)}/subtasks/metrics",
        params=texts(
            {
                "get": get,
                "agg": agg,
                "subtasks": subtasks,
            }
        ),
        is_repeatable=True,
    )


def get_job_vertex_subtask(
    job_id: str,
    vertex_id: str,
    subtaskindex: int,
) -> ApiCall[answers.SubtaskAttempt]:
    """A subtask in the newest attempt."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/vertices/{part(vertex_id)}/subtasks/{part(subtaskindex)}",
        is_repeatable=True,
    )


def get_job_vertex_subtask_attempt(
    job_id: str,
    vertex_id: str,
    subtaskindex: int,
    attempt: int,
) -> ApiCall[answers.SubtaskAttempt]:
    """A subtask in one attempt."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/vertices/{part(vertex_id)}/subtasks/{part(subtaskindex)}/attempts/{part(attempt)}",
        is_repeatable=True,
    )


def get_job_vertex_subtask_attempt_accumulators(
    job_id: str,
    vertex_id: str,
    subtaskindex: int,
    attempt: int,
) -> ApiCall[answers.AttemptAccumulators]:
    """What users' code counted in a subtask. Values are added up over subtasks before they are
    reported, so no subtask has its own.
    """
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/vertices/{part(vertex_id)}/subtasks/{part(subtaskindex)}/attempts/{part(attempt)}/accumulators",
        is_repeatable=True,
    )


def get_job_vertex_subtask_metrics(
    job_id: str,
    vertex_id: str,
    subtaskindex: int,
    *,
    get: str | None = None,
) -> ApiCall[list[answers.MetricValue]]:
    """Figures of a subtask."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/vertices/{part(vertex_id)}/subtasks/{part(subtaskindex)}/metrics",
        params=texts(
            {
                "get": get,
            }
        ),
        is_repeatable=True,
    )


def get_job_vertex_subtasktimes(
    job_id: str,
    vertex_id: str,
) -> ApiCall[answers.TaskTimes]:
    """When a task's subtasks came into each state."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/vertices/{part(vertex_id)}/subtasktimes",
        is_repeatable=True,
    )


def get_job_vertex_taskmanagers(
    job_id: str,
    vertex_id: str,
) -> ApiCall[answers.TaskRunners]:
    """The runner that runs a task."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/vertices/{part(vertex_id)}/taskmanagers",
        is_repeatable=True,
    )


def get_job_vertex_watermarks(
    job_id: str,
    vertex_id: str,
) -> ApiCall[list[answers.MetricValue]]:
    """How far a task's input has come."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/vertices/{part(vertex_id)}/watermarks",
        is_repeatable=True,
    )


def get_job_yarn_cancel(
    job_id: str,
) -> ApiCall[answers.Nothing]:
    """Cancel a job."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/yarn-cancel",
        is_repeatable=True,
    )


def get_job_yarn_stop(
    job_id: str,
) -> ApiCall[answers.RequestAccepted]:
    """Stop a job with a savepoint."""
    return ApiCall(
        method="GET",
        path=f"/v1/jobs/{part(job_id)}/yarn-stop",
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


def get_taskmanagers() -> ApiCall[answers.TaskManagers]:
    """Runners that are alive."""
    return ApiCall(
        method="GET",
        path="/v1/taskmanagers",
        is_repeatable=True,
    )


def get_taskmanagers_metrics(
    *,
    get: str | None = None,
    agg: str | None = None,
    taskmanagers: str | None = None,
) -> ApiCall[list[answers.AggregatedMetric]]:
    """Figures of several runners together."""
    return ApiCall(
        method="GET",
        path="/v1/taskmanagers/metrics",
        params=texts(
            {
                "get": get,
                "agg": agg,
                "taskmanagers": taskmanagers,
            }
        ),
        is_repeatable=True,
    )


def get_taskmanager(
    taskmanager_id: str,
) -> ApiCall[answers.TaskManagerDetails]:
    """A runner."""
    return ApiCall(
        method="GET",
        path=f"/v1/taskmanagers/{part(taskmanager_id)}",
        is_repeatable=True,
    )


def get_taskmanager_log(
    taskmanager_id: str,
) -> ApiCall[str]:
    """A runner's log."""
    return ApiCall(
        method="GET",
        path=f"/v1/taskmanagers/{part(taskmanager_id)}/log",
        form=AnswerForm.TEXT,
        is_repeatable=True,
    )


def get_taskmanager_logs(
    taskmanager_id: str,
) -> ApiCall[answers.LogList]:
    """A runner's logs."""
    return ApiCall(
        method="GET",
        path=f"/v1/taskmanagers/{part(taskmanager_id)}/logs",
        is_repeatable=True,
    )


def get_taskmanager_log_by_logname(
    taskmanager_id: str,
    logname: str,
) -> ApiCall[str]:
    """One of a runner's logs."""
    return ApiCall(
        method="GET",
        path=f"/v1/taskmanagers/{part(taskmanager_id)}/logs/{part(logname)}",
        form=AnswerForm.TEXT,
        is_repeatable=True,
    )


def get_taskmanager_metrics(
    taskmanager_id: str,
    *,
    get: str | None = None,
) -> ApiCall[list[answers.MetricValue]]:
    """Figures of a runner."""
    return ApiCall(
        method="GET",
        path=f"/v1/taskmanagers/{part(taskmanager_id)}/metrics",
        params=texts(
            {
                "get": get,
            }
        ),
        is_repeatable=True,
    )


def get_taskmanager_profiler(
    taskmanager_id: str,
) -> ApiCall[answers.Profilings]:
    """Profiler runs of a runner, none."""
    return ApiCall(
        method="GET",
        path=f"/v1/taskmanagers/{part(taskmanager_id)}/profiler",
        is_repeatable=True,
    )


def post_taskmanager_profiler(
    taskmanager_id: str,
) -> ApiCall[answers.Nothing]:
    """Profiles nothing."""
    return ApiCall(
        method="POST",
        path=f"/v1/taskmanagers/{part(taskmanager_id)}/profiler",
    )


def get_taskmanager_stdout(
    taskmanager_id: str,
) -> ApiCall[str]:
    """What a runner wrote to standard output: its log."""
    return ApiCall(
        method="GET",
        path=f"/v1/taskmanagers/{part(taskmanager_id)}/stdout",
        form=AnswerForm.TEXT,
        is_repeatable=True,
    )


def get_taskmanager_thread_dump(
    taskmanager_id: str,
    *,
    mode: str | None = None,
) -> ApiCall[answers.ThreadDump]:
    """What a runner's threads do. Threads of its Python process and of its JVM. The runner is asked
    with the answer to its next heartbeat, so this takes a second or two.
    """
    return ApiCall(
        method="GET",
        path=f"/v1/taskmanagers/{part(taskmanager_id)}/thread-dump",
        params=texts(
            {
                "mode": mode,
            }
        ),
        is_repeatable=True,
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


def get_webhooks() -> ApiCall[answers.WebhookList]:
    """All webhooks, without their secrets."""
    return ApiCall(
        method="GET",
        path="/v1/webhooks",
        is_repeatable=True,
    )


def create_webhook(
    *,
    name: str,
    url: str,
    on: list[str],
    job: str | None = None,
    secret: str | None = None,
) -> ApiCall[answers.NewWebhookResponse]:
    """Create a webhook."""
    return ApiCall(
        method="POST",
        path="/v1/webhooks",
        json=given(
            {
                "name": name,
                "url": url,
                "on": on,
                "job": job,
                "secret": secret,
            }
        ),
    )


def delete_webhook(
    name: str,
) -> ApiCall[answers.WebhookResponse]:
    """Delete a webhook with its deliveries."""
    return ApiCall(
        method="DELETE",
        path=f"/v1/webhooks/{part(name)}",
        is_repeatable=True,
    )


def get_webhook_deliveries(
    name: str,
    *,
    limit: int | None = None,
    before: int | None = None,
) -> ApiCall[answers.DeliveryPage]:
    """Deliveries of a webhook, the newest first."""
    return ApiCall(
        method="GET",
        path=f"/v1/webhooks/{part(name)}/deliveries",
        params=texts(
            {
                "limit": limit,
                "before": before,
            }
        ),
        is_repeatable=True,
    )


def test_webhook(
    name: str,
) -> ApiCall[answers.WebhookTest]:
    """Send a sample, and answer what the receiver said."""
    return ApiCall(
        method="POST",
        path=f"/v1/webhooks/{part(name)}/test",
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
    get_applications_overview = Method(get_applications_overview)
    get_application = Method(get_application)
    post_application_cancel = Method(post_application_cancel)
    get_application_exceptions = Method(get_application_exceptions)
    get_application_jobmanager_config = Method(get_application_jobmanager_config)
    get_artifacts = Method(get_artifacts)
    upload_artifact = Method(upload_artifact)
    delete_artifact = Method(delete_artifact)
    get_artifact = Method(get_artifact)
    get_audit = Method(get_audit)
    delete_cluster = Method(delete_cluster)
    get_config = Method(get_config)
    get_datasets = Method(get_datasets)
    get_datasets_delete = Method(get_datasets_delete)
    delete_dataset = Method(delete_dataset)
    get_events = Events(get_events)
    collect_garbage = Method(collect_garbage)
    get_inspector = Method(get_inspector)
    get_jars = Method(get_jars)
    post_jars_upload = Method(post_jars_upload)
    delete_jar = Method(delete_jar)
    get_jar_plan = Method(get_jar_plan)
    post_jar_plan = Method(post_jar_plan)
    post_jar_run = Method(post_jar_run)
    post_jar_run_application = Method(post_jar_run_application)
    get_jobmanager_config = Method(get_jobmanager_config)
    get_jobmanager_environment = Method(get_jobmanager_environment)
    get_jobmanager_log = Method(get_jobmanager_log)
    get_jobmanager_logs = Method(get_jobmanager_logs)
    get_jobmanager_log_by_logname = Method(get_jobmanager_log_by_logname)
    get_jobmanager_metrics = Method(get_jobmanager_metrics)
    get_jobmanager_profiler = Method(get_jobmanager_profiler)
    post_jobmanager_profiler = Method(post_jobmanager_profiler)
    get_jobmanager_stdout = Method(get_jobmanager_stdout)
    get_jobmanager_thread_dump = Method(get_jobmanager_thread_dump)
    get_jobmanagers = Method(get_jobmanagers)
    get_jobs = Method(get_jobs)
    submit_job = Method(submit_job)
    get_jobs_metrics = Method(get_jobs_metrics)
    get_jobs_overview = Method(get_jobs_overview)
    get_jobs_summary = Method(get_jobs_summary)
    get_job = Method(get_job)
    cancel_job = Method(cancel_job)
    get_job_accumulators = Method(get_job_accumulators)
    get_job_checkpoints = Method(get_job_checkpoints)
    trigger_checkpoint = Method(trigger_checkpoint)
    get_job_checkpoints_config = Method(get_job_checkpoints_config)
    get_job_checkpoint_details = Method(get_job_checkpoint_details)
    get_job_checkpoints_detail_subtask = Method(get_job_checkpoints_detail_subtask)
    get_job_checkpoint = Method(get_job_checkpoint)
    verify_checkpoint = Method(verify_checkpoint)
    patch_job_client_heartbeat = Method(patch_job_client_heartbeat)
    get_job_config = Method(get_job_config)
    get_job_events = Events(get_job_events)
    get_job_exceptions = Method(get_job_exceptions)
    get_job_execution_result = Method(get_job_execution_result)
    get_job_graph = Method(get_job_graph)
    get_job_history = Method(get_job_history)
    get_job_jobmanager_config = Method(get_job_jobmanager_config)
    get_job_jobmanager_environment = Method(get_job_jobmanager_environment)
    get_job_jobmanager_log_url = Method(get_job_jobmanager_log_url)
    get_job_key_groups = Method(get_job_key_groups)
    get_job_lag = Method(get_job_lag)
    get_job_logs = Method(get_job_logs)
    get_job_metrics = Method(get_job_metrics)
    get_job_operations = Method(get_job_operations)
    pause_job = Method(pause_job)
    get_job_plan = Method(get_job_plan)
    get_job_rescales_config = Method(get_job_rescales_config)
    get_job_rescales_detail = Method(get_job_rescales_detail)
    get_job_rescales_history = Method(get_job_rescales_history)
    get_job_rescales_overview = Method(get_job_rescales_overview)
    get_job_rescales_summary = Method(get_job_rescales_summary)
    rescale_job = Method(rescale_job)
    get_job_rescaling = Method(get_job_rescaling)
    get_job_resource_requirements = Method(get_job_resource_requirements)
    put_job_resource_requirements = Method(put_job_resource_requirements)
    resume_job = Method(resume_job)
    get_job_revisions = Method(get_job_revisions)
    get_job_samples = Method(get_job_samples)
    trigger_savepoint = Method(trigger_savepoint)
    get_job_savepoint = Method(get_job_savepoint)
    get_job_sink_rows = Method(get_job_sink_rows)
    get_job_states = Method(get_job_states)
    get_job_state_rows = Method(get_job_state_rows)
    get_job_state_key_groups = Method(get_job_state_key_groups)
    get_job_state_key = Method(get_job_state_key)
    get_job_status = Method(get_job_status)
    stop_job = Method(stop_job)
    get_job_taskmanager_log_url = Method(get_job_taskmanager_log_url)
    upgrade_job = Method(upgrade_job)
    get_job_vertex = Method(get_job_vertex)
    get_job_vertex_accumulators = Method(get_job_vertex_accumulators)
    get_job_vertex_backpressure = Method(get_job_vertex_backpressure)
    get_job_vertex_flamegraph = Method(get_job_vertex_flamegraph)
    get_job_vertex_jm_operator_metrics = Method(get_job_vertex_jm_operator_metrics)
    get_job_vertex_metrics = Method(get_job_vertex_metrics)
    get_job_vertex_subtasks_accumulators = Method(get_job_vertex_subtasks_accumulators)
    get_job_vertex_subtasks_metrics = Method(get_job_vertex_subtasks_metrics)
    get_job_vertex_subtask = Method(get_job_vertex_subtask)
    get_job_vertex_subtask_attempt = Method(get_job_vertex_subtask_attempt)
    get_job_vertex_subtask_attempt_accumulators = Method(
        get_job_vertex_subtask_attempt_accumulators
    )
    get_job_vertex_subtask_metrics = Method(get_job_vertex_subtask_metrics)
    get_job_vertex_subtasktimes = Method(get_job_vertex_subtasktimes)
    get_job_vertex_taskmanagers = Method(get_job_vertex_taskmanagers)
    get_job_vertex_watermarks = Method(get_job_vertex_watermarks)
    get_job_yarn_cancel = Method(get_job_yarn_cancel)
    get_job_yarn_stop = Method(get_job_yarn_stop)
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
    get_taskmanagers = Method(get_taskmanagers)
    get_taskmanagers_metrics = Method(get_taskmanagers_metrics)
    get_taskmanager = Method(get_taskmanager)
    get_taskmanager_log = Method(get_taskmanager_log)
    get_taskmanager_logs = Method(get_taskmanager_logs)
    get_taskmanager_log_by_logname = Method(get_taskmanager_log_by_logname)
    get_taskmanager_metrics = Method(get_taskmanager_metrics)
    get_taskmanager_profiler = Method(get_taskmanager_profiler)
    post_taskmanager_profiler = Method(post_taskmanager_profiler)
    get_taskmanager_stdout = Method(get_taskmanager_stdout)
    get_taskmanager_thread_dump = Method(get_taskmanager_thread_dump)
    get_tokens = Method(get_tokens)
    create_token = Method(create_token)
    revoke_token = Method(revoke_token)
    get_webhooks = Method(get_webhooks)
    create_webhook = Method(create_webhook)
    delete_webhook = Method(delete_webhook)
    get_webhook_deliveries = Method(get_webhook_deliveries)
    test_webhook = Method(test_webhook)
    get_whoami = Method(get_whoami)


class AsyncApiOperations:
    """Methods that send its request and are awaited, one for each operation."""

    get_healthz = AsyncMethod(get_healthz)
    get_metrics = AsyncMethod(get_metrics)
    get_readyz = AsyncMethod(get_readyz)
    get_applications_overview = AsyncMethod(get_applications_overview)
    get_application = AsyncMethod(get_application)
    post_application_cancel = AsyncMethod(post_application_cancel)
    get_application_exceptions = AsyncMethod(get_application_exceptions)
    get_application_jobmanager_config = AsyncMethod(get_application_jobmanager_config)
    get_artifacts = AsyncMethod(get_artifacts)
    upload_artifact = AsyncMethod(upload_artifact)
    delete_artifact = AsyncMethod(delete_artifact)
    get_artifact = AsyncMethod(get_artifact)
    get_audit = AsyncMethod(get_audit)
    delete_cluster = AsyncMethod(delete_cluster)
    get_config = AsyncMethod(get_config)
    get_datasets = AsyncMethod(get_datasets)
    get_datasets_delete = AsyncMethod(get_datasets_delete)
    delete_dataset = AsyncMethod(delete_dataset)
    get_events = AsyncEvents(get_events)
    collect_garbage = AsyncMethod(collect_garbage)
    get_inspector = AsyncMethod(get_inspector)
    get_jars = AsyncMethod(get_jars)
    post_jars_upload = AsyncMethod(post_jars_upload)
    delete_jar = AsyncMethod(delete_jar)
    get_jar_plan = AsyncMethod(get_jar_plan)
    post_jar_plan = AsyncMethod(post_jar_plan)
    post_jar_run = AsyncMethod(post_jar_run)
    post_jar_run_application = AsyncMethod(post_jar_run_application)
    get_jobmanager_config = AsyncMethod(get_jobmanager_config)
    get_jobmanager_environment = AsyncMethod(get_jobmanager_environment)
    get_jobmanager_log = AsyncMethod(get_jobmanager_log)
    get_jobmanager_logs = AsyncMethod(get_jobmanager_logs)
    get_jobmanager_log_by_logname = AsyncMethod(get_jobmanager_log_by_logname)
    get_jobmanager_metrics = AsyncMethod(get_jobmanager_metrics)
    get_jobmanager_profiler = AsyncMethod(get_jobmanager_profiler)
    post_jobmanager_profiler = AsyncMethod(post_jobmanager_profiler)
    get_jobmanager_stdout = AsyncMethod(get_jobmanager_stdout)
    get_jobmanager_thread_dump = AsyncMethod(get_jobmanager_thread_dump)
    get_jobmanagers = AsyncMethod(get_jobmanagers)
    get_jobs = AsyncMethod(get_jobs)
    submit_job = AsyncMethod(submit_job)
    get_jobs_metrics = AsyncMethod(get_jobs_metrics)
    get_jobs_overview = AsyncMethod(get_jobs_overview)
    get_jobs_summary = AsyncMethod(get_jobs_summary)
    get_job = AsyncMethod(get_job)
    cancel_job = AsyncMethod(cancel_job)
    get_job_accumulators = AsyncMethod(get_job_accumulators)
    get_job_checkpoints = AsyncMethod(get_job_checkpoints)
    trigger_checkpoint = AsyncMethod(trigger_checkpoint)
    get_job_checkpoints_config = AsyncMethod(get_job_checkpoints_config)
    get_job_checkpoint_details = AsyncMethod(get_job_checkpoint_details)
    get_job_checkpoints_detail_subtask = AsyncMethod(get_job_checkpoints_detail_subtask)
    get_job_checkpoint = AsyncMethod(get_job_checkpoint)
    verify_checkpoint = AsyncMethod(verify_checkpoint)
    patch_job_client_heartbeat = AsyncMethod(patch_job_client_heartbeat)
    get_job_config = AsyncMethod(get_job_config)
    get_job_events = AsyncEvents(get_job_events)
    get_job_exceptions = AsyncMethod(get_job_exceptions)
    get_job_execution_result = AsyncMethod(get_job_execution_result)
    get_job_graph = AsyncMethod(get_job_graph)
    get_job_history = AsyncMethod(get_job_history)
    get_job_jobmanager_config = AsyncMethod(get_job_jobmanager_config)
    get_job_jobmanager_environment = AsyncMethod(get_job_jobmanager_environment)
    get_job_jobmanager_log_url = AsyncMethod(get_job_jobmanager_log_url)
    get_job_key_groups = AsyncMethod(get_job_key_groups)
    get_job_lag = AsyncMethod(get_job_lag)
    get_job_logs = AsyncMethod(get_job_logs)
    get_job_metrics = AsyncMethod(get_job_metrics)
    get_job_operations = AsyncMethod(get_job_operations)
    pause_job = AsyncMethod(pause_job)
    get_job_plan = AsyncMethod(get_job_plan)
    get_job_rescales_config = AsyncMethod(get_job_rescales_config)
    get_job_rescales_detail = AsyncMethod(get_job_rescales_detail)
    get_job_rescales_history = AsyncMethod(get_job_rescales_history)
    get_job_rescales_overview = AsyncMethod(get_job_rescales_overview)
    get_job_rescales_summary = AsyncMethod(get_job_rescales_summary)
    rescale_job = AsyncMethod(rescale_job)
    get_job_rescaling = AsyncMethod(get_job_rescaling)
    get_job_resource_requirements = AsyncMethod(get_job_resource_requirements)
    put_job_resource_requirements = AsyncMethod(put_job_resource_requirements)
    resume_job = AsyncMethod(resume_job)
    get_job_revisions = AsyncMethod(get_job_revisions)
    get_job_samples = AsyncMethod(get_job_samples)
    trigger_savepoint = AsyncMethod(trigger_savepoint)
    get_job_savepoint = AsyncMethod(get_job_savepoint)
    get_job_sink_rows = AsyncMethod(get_job_sink_rows)
    get_job_states = AsyncMethod(get_job_states)
    get_job_state_rows = AsyncMethod(get_job_state_rows)
    get_job_state_key_groups = AsyncMethod(get_job_state_key_groups)
    get_job_state_key = AsyncMethod(get_job_state_key)
    get_job_status = AsyncMethod(get_job_status)
    stop_job = AsyncMethod(stop_job)
    get_job_taskmanager_log_url = AsyncMethod(get_job_taskmanager_log_url)
    upgrade_job = AsyncMethod(upgrade_job)
    get_job_vertex = AsyncMethod(get_job_vertex)
    get_job_vertex_accumulators = AsyncMethod(get_job_vertex_accumulators)
    get_job_vertex_backpressure = AsyncMethod(get_job_vertex_backpressure)
    get_job_vertex_flamegraph = AsyncMethod(get_job_vertex_flamegraph)
    get_job_vertex_jm_operator_metrics = AsyncMethod(get_job_vertex_jm_operator_metrics)
    get_job_vertex_metrics = AsyncMethod(get_job_vertex_metrics)
    get_job_vertex_subtasks_accumulators = AsyncMethod(get_job_vertex_subtasks_accumulators)
    get_job_vertex_subtasks_metrics = AsyncMethod(get_job_vertex_subtasks_metrics)
    get_job_vertex_subtask = AsyncMethod(get_job_vertex_subtask)
    get_job_vertex_subtask_attempt = AsyncMethod(get_job_vertex_subtask_attempt)
    get_job_vertex_subtask_attempt_accumulators = AsyncMethod(
        get_job_vertex_subtask_attempt_accumulators
    )
    get_job_vertex_subtask_metrics = AsyncMethod(get_job_vertex_subtask_metrics)
    get_job_vertex_subtasktimes = AsyncMethod(get_job_vertex_subtasktimes)
    get_job_vertex_taskmanagers = AsyncMethod(get_job_vertex_taskmanagers)
    get_job_vertex_watermarks = AsyncMethod(get_job_vertex_watermarks)
    get_job_yarn_cancel = AsyncMethod(get_job_yarn_cancel)
    get_job_yarn_stop = AsyncMethod(get_job_yarn_stop)
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
    get_taskmanagers = AsyncMethod(get_taskmanagers)
    get_taskmanagers_metrics = AsyncMethod(get_taskmanagers_metrics)
    get_taskmanager = AsyncMethod(get_taskmanager)
    get_taskmanager_log = AsyncMethod(get_taskmanager_log)
    get_taskmanager_logs = AsyncMethod(get_taskmanager_logs)
    get_taskmanager_log_by_logname = AsyncMethod(get_taskmanager_log_by_logname)
    get_taskmanager_metrics = AsyncMethod(get_taskmanager_metrics)
    get_taskmanager_profiler = AsyncMethod(get_taskmanager_profiler)
    post_taskmanager_profiler = AsyncMethod(post_taskmanager_profiler)
    get_taskmanager_stdout = AsyncMethod(get_taskmanager_stdout)
    get_taskmanager_thread_dump = AsyncMethod(get_taskmanager_thread_dump)
    get_tokens = AsyncMethod(get_tokens)
    create_token = AsyncMethod(create_token)
    revoke_token = AsyncMethod(revoke_token)
    get_webhooks = AsyncMethod(get_webhooks)
    create_webhook = AsyncMethod(create_webhook)
    delete_webhook = AsyncMethod(delete_webhook)
    get_webhook_deliveries = AsyncMethod(get_webhook_deliveries)
    test_webhook = AsyncMethod(test_webhook)
    get_whoami = AsyncMethod(get_whoami)
