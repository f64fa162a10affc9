"""Submits graphs, with the code they name, as flows for both clients."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from jobmanager.client import answers, local_artifacts, operations
from jobmanager.client.errors import HeadgateError
from jobmanager.client.flows import Flow, ask


def submit(
    graph: Mapping[str, Any],
    *,
    directory: Path | None = None,
    parallelism: int | None = None,
    savepoint: str | None = None,
    checkpoint: str | None = None,
    allow_non_restored_state: bool = False,
    allow_drained: bool = False,
    claim: bool = False,
    analyse: bool = False,
    idempotency_key: str | None = None,
) -> Flow[str]:
    """Submit a job graph and return the job's id.

    The job may start from a savepoint (its id or location) or from a checkpoint (`<job
    id>:<number>`); if it claims either, that is deleted after the job's first checkpoint. With
    `analyse`, Spark checks the graph first. With `directory`, artifacts that are files there are
    uploaded. The same `idempotency_key` and graph mean the same job.
    """
    document = yield from with_uploads(graph, directory)
    call = operations.submit_job(
        document,
        parallelism=parallelism,
        savepoint=savepoint,
        checkpoint=checkpoint,
        allow_non_restored_state=allow_non_restored_state or None,
        allow_drained=allow_drained or None,
        restore_mode="claim" if claim else None,
        analyse=analyse or None,
        idempotency_key=idempotency_key,
    )
    return cast(answers.JobSubmitted, (yield from ask(call)))["jobid"]


def dry_run(
    graph: Mapping[str, Any],
    *,
    directory: Path | None = None,
    parallelism: int | None = None,
    savepoint: str | None = None,
    checkpoint: str | None = None,
    allow_non_restored_state: bool = False,
    allow_drained: bool = False,
    analyse: bool = False,
) -> Flow[answers.DryRun]:
    """Return the plan and the faults of a graph, and why the job could not start from a savepoint
    or checkpoint. Nothing is stored but artifacts that are files in `directory`.
    """
    document = yield from with_uploads(graph, directory)
    call = operations.submit_job(
        document,
        parallelism=parallelism,
        savepoint=savepoint,
        checkpoint=checkpoint,
        allow_non_restored_state=allow_non_restored_state or None,
        allow_drained=allow_drained or None,
        analyse=analyse or None,
        dry_run=True,
    )
    return cast(answers.DryRun, (yield from ask(call)))


def with_uploads(graph: Mapping[str, Any], directory: Path | None) -> Flow[Mapping[str, Any]]:
    """Upload the artifacts that are files in `directory`, and put their ids into the graph."""
    named = graph.get("artifacts")
    if directory is None or not isinstance(named, list):
        return graph
    ids: list[Any] = []
    for one in named:
        file = directory / one if isinstance(one, str) else None
        if file is None or not (file.is_file() or file.is_dir()):
            ids.append(one)
            continue
        try:
            name, content = local_artifacts.named_content(file)
        except OSError as error:
            raise HeadgateError(f"{file} cannot be read: {error.strerror or error}") from error
        made = yield from ask(operations.upload_artifact(content, name=name))
        ids.append(made["id"])
    return {**graph, "artifacts": ids}
