"""The HTTP application: all routes, under /v1 and, as Flink's clients call them, without it."""

from importlib.metadata import version

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from jobmanager.api import (
    checkpoints,
    garbage,
    health,
    jobs,
    logs,
    problems,
    runners,
    savepoints,
)
from jobmanager.api.flink import checkpoints as flink_checkpoints
from jobmanager.api.flink import cluster as flink_cluster
from jobmanager.api.flink import jobs as flink_jobs
from jobmanager.api.flink import savepoints as flink_savepoints

MOST_BODY_BYTES = 16 * 1024 * 1024
# Flink's first: /jobs/overview and /checkpoints/config are words, not ids.
_ROUTERS = (
    flink_cluster.router,
    flink_jobs.router,
    flink_checkpoints.router,
    flink_savepoints.router,
    jobs.router,
    checkpoints.router,
    savepoints.router,
    garbage.router,
    logs.router,
    runners.router,
)


def make_app() -> FastAPI:
    """The application; it serves once `app.state.context` is set."""
    app: FastAPI = FastAPIOffline(
        title="Headgate",
        version=version("headgate"),
        summary="Job management for Apache Spark: Flink's REST API and more.",
    )
    problems.install(app)
    app.add_middleware(BodyLimit)
    for router in _ROUTERS:
        app.include_router(router, prefix="/v1")
        app.include_router(router, include_in_schema=False)
    app.include_router(health.router)
    app.include_router(health.router, prefix="/v1", include_in_schema=False)
    return app


class BodyLimit:
    """Refuses a body that is too large before it is read, or while it is."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = Request(scope).headers.get("content-length", "0")
        if length.isdigit() and int(length) > MOST_BODY_BYTES:
            await _too_large(scope["path"])(scope, receive, send)
            return
        await self._app(scope, _counted(receive), send)


def _counted(receive: Receive) -> Receive:
    """For a body that did not say its length."""
    received = 0

    async def counted() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > MOST_BODY_BYTES:
            raise HTTPException(413, f"a request has {MOST_BODY_BYTES} bytes at most")
        return message

    return counted


def _too_large(path: str) -> JSONResponse:
    problem = {
        "type": "/problems/BodyTooLarge",
        "title": "The body is too large",
        "status": 413,
        "detail": f"a request has {MOST_BODY_BYTES} bytes at most",
        "instance": path,
    }
    return JSONResponse(problem, 413, media_type="application/problem+json")
