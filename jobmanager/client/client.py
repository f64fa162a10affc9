"""The client of the command line: thin, with a method for each route that a command needs.

Programs use `Client` and `AsyncClient`, which have all operations, repeat requests where that is
safe, and know jobs as objects (`sync_client`, `async_client`).

    with HeadgateClient("http://127.0.0.1:8081") as headgate:
        job = headgate.submit(graph)
        print(headgate.status(job)["state"])

Methods return the server's answers as typed mappings, and raise a `HeadgateError` with a message
of one line.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Self, cast
from urllib.parse import quote

import httpx

from jobmanager.client import answers
from jobmanager.client.connection import http_settings
from jobmanager.client.errors import ServerUnreachable, refusal_of
from jobmanager.client.state import StateOf
from jobmanager.core.durations import milliseconds

ENDED = ("CANCELED", "FINISHED", "FAILED")
"""Flink's names of the terminal states."""


class HeadgateClient:
    """A client of the server at `url`. Close it, or use it as a context manager.

    The token and the file of trusted certificates come from the environment (`credentials`) unless
    they are given. An empty `token` means that no token is sent.
    """

    def __init__(
        self, url: str, *, timeout: float = 30.0, token: str | None = None, ca: Path | None = None
    ) -> None:
        self.url = url.rstrip("/")
        settings = http_settings(self.url, timeout, token, ca)
        self._http = httpx.Client(base_url=f"{self.url}/v1", **settings)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    # ── jobs ──────────────────────────────────────────────────────────────────

    def submit(
        self,
        graph: Mapping[str, Any],
        *,
        parallelism: int | None = None,
        idempotency_key: str | None = None,
        savepoint: str | None = None,
        checkpoint: str | None = None,
        allow_non_restored_state: bool = False,
        allow_drained: bool = False,
        claim: bool = False,
        analyse: bool = False,
    ) -> str:
        """Submit a job graph and return the id of its job. The job may start from a savepoint (its
        id or location) or from a checkpoint (`<job id>:<number>`); if it claims either, that is
        deleted after the job's first checkpoint. With `analyse`, Spark checks the graph first.
        """
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        params = _given(
            parallelism=parallelism,
            savepoint=savepoint,
            checkpoint=checkpoint,
            allow_non_restored_state="true" if allow_non_restored_state else None,
            allow_drained="true" if allow_drained else None,
            restore_mode="claim" if claim else None,
            analyse="true" if analyse else None,
        )
        answer = self._ask(
            "POST",
            "/jobs",
            json=dict(graph),
            params=params,
            headers=headers,
            **({"timeout": 300.0} if analyse else {}),
        )
        return str(answer["jobid"])

    def dry_run(
        self,
        graph: Mapping[str, Any],
        *,
        parallelism: int | None = None,
        savepoint: str | None = None,
        checkpoint: str | None = None,
        allow_non_restored_state: bool = False,
        allow_drained: bool = False,
        analyse: bool = False,
    ) -> answers.DryRun:
        """Return the plan and the faults of a graph, and why the job could not start from a
        savepoint or checkpoint. With `analyse`, Spark checks the graph, too. Nothing is stored.
        """
        params = _given(
            parallelism=parallelism,
            savepoint=savepoint,
            checkpoint=checkpoint,
            allow_non_restored_state="true" if allow_non_restored_state else None,
            allow_drained="true" if allow_drained else None,
            dry_run="true",
            analyse="true" if analyse else None,
        )
        answer = self._ask("POST", "/jobs", json=dict(graph), params=params, timeout=300.0)
        return cast(answers.DryRun, answer)

    def jobs(self) -> list[answers.JobLine]:
        return cast(list[answers.JobLine], self._ask("GET", "/jobs/overview")["jobs"])

    def summaries(
        self, *, limit: int = 200, labels: Sequence[str] = ()
    ) -> list[answers.SummaryItem]:
        """Return what each job does at the moment, the newest first. `labels`: `name=text`, or
        `name` with any text.
        """
        params = {"limit": limit, **({"label": list(labels)} if labels else {})}
        found = self._ask("GET", "/jobs/summary", params=params)
        return cast(list[answers.SummaryItem], found["items"])

    def job(self, job_id: str) -> answers.JobDetails:
        return cast(answers.JobDetails, self._ask("GET", f"/jobs/{job_id}"))

    def status(self, job_id: str) -> answers.StatusResponse:
        return cast(answers.StatusResponse, self._ask("GET", f"/jobs/{job_id}/status"))

    def graph(self, job_id: str) -> answers.GraphResponse:
        return cast(answers.GraphResponse, self._ask("GET", f"/jobs/{job_id}/graph"))

    def plan(self, job_id: str) -> answers.JobPlanResponse:
        return cast(answers.JobPlanResponse, self._ask("GET", f"/jobs/{job_id}/plan"))

    def exceptions(self, job_id: str) -> answers.JobExceptions:
        return cast(answers.JobExceptions, self._ask("GET", f"/jobs/{job_id}/exceptions"))

    def key_groups(self, job_id: str) -> answers.KeyGroupsResponse:
        return cast(answers.KeyGroupsResponse, self._ask("GET", f"/jobs/{job_id}/key-groups"))

    def history(self, job_id: str) -> answers.HistoryPage:
        return cast(answers.HistoryPage, self._ask("GET", f"/jobs/{job_id}/history"))

    def cancel(self, job_id: str) -> None:
        """Cancel a job without waiting; `wait_until_ended` waits for its end."""
        self._ask("PATCH", f"/jobs/{job_id}", params={"mode": "cancel"})

    def pause(self, job_id: str) -> answers.JobState:
        """Pause a job without waiting."""
        return cast(answers.JobState, self._ask("POST", f"/jobs/{job_id}/pause"))

    def resume(self, job_id: str) -> answers.JobState:
        """Let a paused job continue, without waiting."""
        return cast(answers.JobState, self._ask("POST", f"/jobs/{job_id}/resume"))

    def wait_until_ended(self, job_id: str, *, timeout: float, every: float = 0.3) -> str | None:
        """Wait for the job's end and return its state; None if it has not ended within `timeout`
        seconds.
        """
        deadline = time.monotonic() + timeout
        while True:
            state = str(self.job(job_id)["state"])
            if state in ENDED:
                return state
            if time.monotonic() >= deadline:
                return None
            time.sleep(every)

    def logs(self, job_id: str, *, follow: bool = False) -> Iterator[str]:
        """Yield the lines of the runner's log; with `follow`, until the runner has exited."""
        params = {"follow": "true"} if follow else {}
        # No read timeout: a log that is followed may be silent for any time.
        timeout = httpx.Timeout(30.0, read=None if follow else 30.0)
        path = f"/jobs/{job_id}/logs"
        try:
            with self._http.stream("GET", path, params=params, timeout=timeout) as response:
                if response.is_error:
                    response.read()
                    raise refusal_of(response)
                yield from response.iter_lines()
        except httpx.TransportError as error:
            raise ServerUnreachable(self.url, error) from error

    # ── checkpoints ───────────────────────────────────────────────────────────

    def checkpoints(self, job_id: str) -> answers.CheckpointsStatistics:
        return cast(answers.CheckpointsStatistics, self._ask("GET", f"/jobs/{job_id}/checkpoints"))

    def checkpoint(self, job_id: str, number: int) -> answers.CheckpointResponse:
        """Return a checkpoint, with every ack."""
        path = f"/jobs/{job_id}/checkpoints/{number}"
        return cast(answers.CheckpointResponse, self._ask("GET", path))

    def take_checkpoint(self, job_id: str) -> int:
        """Trigger a checkpoint and return its number."""
        return int(self._ask("POST", f"/jobs/{job_id}/checkpoints")["number"])

    def verify_checkpoint(self, job_id: str, number: int) -> answers.VerificationResponse:
        """Let the server verify every file of a checkpoint."""
        path = f"/jobs/{job_id}/checkpoints/{number}/verify"
        return cast(answers.VerificationResponse, self._ask("POST", path, timeout=600.0))

    # ── savepoints ────────────────────────────────────────────────────────────

    def take_savepoint(self, job_id: str, *, target: str | None = None) -> str:
        """Trigger a savepoint and return the id of the operation."""
        body = _given(**{"target-directory": target})
        return str(self._ask("POST", f"/jobs/{job_id}/savepoints", json=body)["request-id"])

    def stop(self, job_id: str, *, drain: bool = False, target: str | None = None) -> str:
        """Trigger a stop with savepoint and return the id of the operation."""
        body = {"drain": drain, **_given(targetDirectory=target)}
        return str(self._ask("POST", f"/jobs/{job_id}/stop", json=body)["request-id"])

    def rescale(self, job_id: str, parallelism: int) -> str:
        """Trigger a rescale and return the id of the operation."""
        params = {"parallelism": parallelism}
        return str(self._ask("PATCH", f"/jobs/{job_id}/rescaling", params=params)["request-id"])

    def plan_upgrade(
        self,
        job_id: str,
        graph: Mapping[str, Any],
        *,
        parallelism: int | None = None,
        allow_non_restored_state: bool = False,
    ) -> answers.PlanResponse:
        """Return what an upgrade would do. Nothing is stopped or stored."""
        params = {"dry_run": "true", **_upgrade_params(parallelism, allow_non_restored_state)}
        path = f"/jobs/{job_id}/upgrade"
        answer = self._ask("POST", path, json=dict(graph), params=params, timeout=300.0)
        return cast(answers.PlanResponse, answer)

    def upgrade(
        self,
        job_id: str,
        graph: Mapping[str, Any],
        *,
        parallelism: int | None = None,
        allow_non_restored_state: bool = False,
    ) -> str:
        """Trigger an upgrade to another graph and return the id of the operation."""
        params = _upgrade_params(parallelism, allow_non_restored_state)
        path = f"/jobs/{job_id}/upgrade"
        answer = self._ask("POST", path, json=dict(graph), params=params, timeout=300.0)
        return str(answer["operation"])

    def operation(self, operation_id: str) -> answers.OperationResponse:
        return cast(answers.OperationResponse, self._ask("GET", f"/operations/{operation_id}"))

    def savepoints(self) -> list[answers.SavepointResponse]:
        return cast(list[answers.SavepointResponse], self._ask("GET", "/savepoints")["items"])

    def savepoint(self, savepoint_id: str) -> answers.SavepointResponse:
        return cast(answers.SavepointResponse, self._ask("GET", f"/savepoints/{savepoint_id}"))

    def label_savepoint(
        self, savepoint_id: str, labels: Mapping[str, str | None]
    ) -> answers.SavepointResponse:
        body = {"labels": dict(labels)}
        return cast(
            answers.SavepointResponse, self._ask("PATCH", f"/savepoints/{savepoint_id}", json=body)
        )

    def verify_savepoint(self, savepoint_id: str) -> answers.VerificationResponse:
        return cast(
            answers.VerificationResponse, self._ask("POST", f"/savepoints/{savepoint_id}/verify")
        )

    def adopt(
        self,
        path: str,
        graph: Mapping[str, Any],
        *,
        parallelism: int | None = None,
        target: str | None = None,
    ) -> answers.SavepointResponse:
        """Make a savepoint of the checkpoint directory of a plain Spark query."""
        body = {
            "path": path,
            "graph": dict(graph),
            "parallelism": parallelism,
            "target_directory": target,
        }
        # all of its state may have to be rewritten
        return cast(
            answers.SavepointResponse,
            self._ask("POST", "/savepoints/adopt", json=body, timeout=3600.0),
        )

    def dispose_savepoint(self, savepoint_id: str) -> answers.SavepointResponse:
        return cast(answers.SavepointResponse, self._ask("DELETE", f"/savepoints/{savepoint_id}"))

    # ── artifacts ─────────────────────────────────────────────────────────────

    def upload_artifact(self, name: str, content: bytes) -> answers.ArtifactResponse:
        """Upload a .py, .zip or .whl file; the same content is the same artifact."""
        answer = self._ask(
            "POST",
            "/artifacts",
            params={"name": name},
            content=content,
            headers={"Content-Type": "application/octet-stream"},
            timeout=300.0,
        )
        return cast(answers.ArtifactResponse, answer)

    def artifacts(self, *, limit: int = 1000) -> list[answers.ArtifactResponse]:
        """Return all artifacts, the newest first."""
        answer = self._ask("GET", "/artifacts", params={"limit": limit})
        return cast(list[answers.ArtifactResponse], answer["items"])

    def artifact(self, artifact_id: str) -> answers.ArtifactDetails:
        return cast(answers.ArtifactDetails, self._ask("GET", f"/artifacts/{artifact_id}"))

    def delete_artifact(self, artifact_id: str) -> answers.ArtifactResponse:
        return cast(answers.ArtifactResponse, self._ask("DELETE", f"/artifacts/{artifact_id}"))

    def describe_script(
        self,
        script: str,
        *,
        arguments: Sequence[str] = (),
        artifacts: Sequence[str] = (),
        name: str | None = None,
        parallelism: int | None = None,
        spark: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Return the job graph of a script that is an artifact. The script runs, but no query
        starts.
        """
        body = {
            "script": script,
            "arguments": list(arguments),
            "artifacts": list(artifacts),
            "name": name,
            "parallelism": parallelism,
            "spark": dict(spark or {}),
        }
        answer = self._ask("POST", "/scripts/describe", json=body, timeout=300.0)
        return cast(dict[str, Any], answer["graph"])

    # ── state ─────────────────────────────────────────────────────────────────

    def state(self, job_id: str) -> StateOf:
        """Return access to the keyed state in a job's last completed checkpoint."""
        return StateOf(self._ask, f"/jobs/{job_id}/state")

    def savepoint_state(self, savepoint_id: str) -> StateOf:
        """Return access to the keyed state in a savepoint."""
        return StateOf(self._ask, f"/savepoints/{savepoint_id}/state")

    def inspector(self) -> answers.InspectorResponse:
        """Return the status of the process that reads state: `stopped`, `starting` or `ready`."""
        return cast(answers.InspectorResponse, self._ask("GET", "/inspector"))

    # ── storage ───────────────────────────────────────────────────────────────

    def gc(
        self,
        *,
        dry_run: bool = False,
        older_than: timedelta | None = None,
        unknown_jobs: bool = False,
    ) -> answers.GarbageResponse:
        """Delete garbage in the server's storage; with `dry_run`, only list it."""
        params = _given(
            dry_run="true" if dry_run else None,
            older_than_ms=None if older_than is None else milliseconds(older_than),
            unknown_jobs="true" if unknown_jobs else None,
        )
        return cast(answers.GarbageResponse, self._ask("POST", "/gc", params=params, timeout=600.0))

    # ── who may do what ───────────────────────────────────────────────────────

    def whoami(self) -> answers.WhoAmI:
        """Return the name and role of the caller."""
        return cast(answers.WhoAmI, self._ask("GET", "/whoami"))

    def create_token(
        self, name: str, role: str, *, expires: timedelta | None = None
    ) -> answers.NewTokenResponse:
        """Create a token. Only this answer contains its secret text, `token`."""
        body: dict[str, Any] = {"name": name, "role": role}
        if expires is not None:
            body["expires_in_ms"] = milliseconds(expires)
        return cast(answers.NewTokenResponse, self._ask("POST", "/tokens", json=body))

    def tokens(self) -> list[answers.TokenResponse]:
        return cast(list[answers.TokenResponse], self._ask("GET", "/tokens")["items"])

    def revoke_token(self, name: str) -> answers.TokenResponse:
        path = f"/tokens/{quote(name, safe='')}"
        return cast(answers.TokenResponse, self._ask("DELETE", path))

    def audit(self, *, limit: int = 100, before: int | None = None) -> answers.AuditPage:
        """Return the requests that changed something or were refused, the newest first."""
        params = _given(limit=limit, before=before)
        return cast(answers.AuditPage, self._ask("GET", "/audit", params=params))

    # ── who is told of what ───────────────────────────────────────────────────

    def create_webhook(
        self,
        name: str,
        url: str,
        on: Sequence[str],
        *,
        job: str | None = None,
        secret: str | None = None,
    ) -> answers.NewWebhookResponse:
        """Create a webhook; the answer has `made_secret` if no secret was given."""
        body = {"name": name, "url": url, "on": list(on), "job": job, "secret": secret}
        return cast(answers.NewWebhookResponse, self._ask("POST", "/webhooks", json=body))

    def webhooks(self) -> list[answers.WebhookResponse]:
        return cast(list[answers.WebhookResponse], self._ask("GET", "/webhooks")["items"])

    def delete_webhook(self, name: str) -> answers.WebhookResponse:
        path = f"/webhooks/{quote(name, safe='')}"
        return cast(answers.WebhookResponse, self._ask("DELETE", path))

    def test_webhook(self, name: str) -> answers.WebhookTest:
        """Send a sample, and return what the receiver answered."""
        path = f"/webhooks/{quote(name, safe='')}/test"
        return cast(answers.WebhookTest, self._ask("POST", path))

    def webhook_deliveries(self, name: str, *, limit: int = 100) -> list[answers.DeliveryItem]:
        path = f"/webhooks/{quote(name, safe='')}/deliveries"
        found = self._ask("GET", path, params={"limit": limit})
        return cast(list[answers.DeliveryItem], found["items"])

    # ── the cluster ───────────────────────────────────────────────────────────

    def overview(self) -> answers.ClusterOverview:
        return cast(answers.ClusterOverview, self._ask("GET", "/overview"))

    def config(self) -> answers.WebConfig:
        return cast(answers.WebConfig, self._ask("GET", "/config"))

    def is_ready(self) -> bool:
        """Whether the server can serve requests."""
        try:
            return self._http.get(f"{self.url}/readyz", timeout=5.0).is_success
        except httpx.TransportError:
            return False

    def _ask(self, method: str, path: str, **request: Any) -> Any:
        try:
            response = self._http.request(method, path, **request)
        except httpx.TransportError as error:
            raise ServerUnreachable(self.url, error) from error
        if response.is_error:
            raise refusal_of(response)
        return response.json() if response.content else {}


def _upgrade_params(parallelism: int | None, allow_non_restored_state: bool) -> dict[str, str]:
    allowed = "true" if allow_non_restored_state else None
    return _given(parallelism=parallelism, allow_non_restored_state=allowed)


def _given(**params: object) -> dict[str, str]:
    return {name: str(value) for name, value in params.items() if value is not None}
