"""The HTTP application: all routes, under /v1 and, as Flink's clients call them, without it."""

from collections.abc import Callable, Mapping
from importlib.metadata import version

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline

from jobmanager.api import (
    artifacts,
    checkpoints,
    dashboard,
    events,
    garbage,
    health,
    jobmanagers,
    jobs,
    logs,
    metrics,
    openapi,
    problems,
    revisions,
    runners,
    samples,
    savepoints,
    scripts,
    sinks,
    state,
    summaries,
    tokens,
    upgrades,
    webhooks,
)
from jobmanager.api.access import AccessGate
from jobmanager.api.audit_trail import AuditTrail
from jobmanager.api.browser_safety import BrowserSafety
from jobmanager.api.conditional_reads import ConditionalReads
from jobmanager.api.flink import absent as flink_absent
from jobmanager.api.flink import accumulators as flink_accumulators
from jobmanager.api.flink import applications as flink_applications
from jobmanager.api.flink import checkpoints as flink_checkpoints
from jobmanager.api.flink import cluster as flink_cluster
from jobmanager.api.flink import execution_results as flink_execution_results
from jobmanager.api.flink import jars as flink_jars
from jobmanager.api.flink import job_manager as flink_job_manager
from jobmanager.api.flink import jobs as flink_jobs
from jobmanager.api.flink import metrics as flink_metrics
from jobmanager.api.flink import rescales as flink_rescales
from jobmanager.api.flink import rescaling as flink_rescaling
from jobmanager.api.flink import savepoints as flink_savepoints
from jobmanager.api.flink import task_managers as flink_task_managers
from jobmanager.api.flink import vertices as flink_vertices
from jobmanager.api.flink import yarn as flink_yarn
from jobmanager.api.forwarding import Forwarding
from jobmanager.api.limits import BODY_IDLE, BODY_WITHIN, BodyLimit, Gate, Lane, default_lanes
from jobmanager.api.route_index import RouteIndex
from jobmanager.api.security_headers import SecurityHeaders
from jobmanager.core.artifact import UploadLimits

# Routes are tried in this order. Runners' calls come first: they are most of the requests.
# Fixed words go before ids: /jobs/summary, and Flink's /jobs/overview and /checkpoints/config.
_ROUTERS = (
    runners.router,
    summaries.router,
    flink_cluster.router,
    flink_metrics.router,
    flink_jobs.router,
    flink_accumulators.router,
    flink_checkpoints.router,
    flink_savepoints.router,
    flink_rescaling.router,
    flink_rescales.router,
    flink_vertices.router,
    flink_execution_results.router,
    flink_jars.router,
    flink_task_managers.router,
    flink_job_manager.router,
    flink_applications.router,
    flink_yarn.router,
    flink_absent.router,
    jobs.router,
    checkpoints.router,
    savepoints.router,
    upgrades.router,
    state.router,
    sinks.router,
    garbage.router,
    artifacts.router,
    scripts.router,
    logs.router,
    samples.router,
    revisions.router,
    events.router,
    jobmanagers.router,
    tokens.router,
    webhooks.router,
)


def make_app(
    body_within: float = BODY_WITHIN,
    lanes: Callable[[], Mapping[str, Lane]] = default_lanes,
    host_names: frozenset[str] = frozenset(),
    most_upload_bytes: int = UploadLimits().file_bytes,
    body_idle: float = BODY_IDLE,
) -> FastAPI:
    """Make the application; it serves requests once `app.state.context` is set. Clients may use
    `host_names` to call the server, beside localhost and IP addresses.
    """
    app: FastAPI = FastAPIOffline(
        title="Headgate",
        version=version("headgate"),
        summary="Job management for Apache Spark: Flink's REST API and more.",
    )
    problems.install(app, _ROUTERS)
    # The middleware added last runs first: a body is read before its request waits or is forwarded.
    app.add_middleware(ConditionalReads)
    app.add_middleware(AuditTrail)
    app.add_middleware(Forwarding)
    app.add_middleware(Gate, lanes=lanes())
    app.add_middleware(
        BodyLimit, within=body_within, idle=body_idle, most_upload_bytes=most_upload_bytes
    )
    app.add_middleware(AccessGate)
    app.add_middleware(BrowserSafety, host_names=host_names)
    app.add_middleware(metrics.RequestTimer)
    app.add_middleware(SecurityHeaders)
    for router in _ROUTERS:
        is_flinks = problems.FLINK in router.tags
        errors = problems.FLINK_ERRORS if is_flinks else problems.NATIVE_ERRORS
        app.include_router(router, prefix="/v1", responses=errors)
        app.include_router(router, include_in_schema=False)
    for router in (health.router, metrics.router):
        app.include_router(router, responses=problems.NATIVE_ERRORS)
        app.include_router(router, prefix="/v1", include_in_schema=False)
    app.include_router(dashboard.router)
    openapi.install(app)
    RouteIndex(app.router).install()
    return app
