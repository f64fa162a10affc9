"""Turns errors into answers: the only place that maps domain errors to HTTP.

Native routes answer with RFC 9457 problem details, Flink's routes as Flink does:
`{"errors": ["…"]}`. A route is Flink's if it carries the tag.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.types import Scope

from jobmanager.api.security_headers import ON_EVERY_ANSWER, POLICY, POLICY_OF_DATA
from jobmanager.api.shapes.problems import FlinkErrors, GraphFault, Problem
from jobmanager.api.shapes.shape import ref_of
from jobmanager.core.errors import (
    ArtifactTooLarge,
    BodyTooLarge,
    BodyTooSlow,
    Conflict,
    DomainError,
    Fault,
    Forbidden,
    FromAnotherSite,
    HeadTooLarge,
    HeadTooSlow,
    InvalidJobGraph,
    Malformed,
    NotFound,
    Rejected,
    RoleTooSmall,
    StateDoesNotFit,
    Unavailable,
    UnsupportedContentType,
    WrongAttemptToken,
)
from jobmanager.protocol.messages import PROTOCOL_HEADER, PROTOCOL_VERSION

FLINK = "flink"
RETRY_AFTER_SECONDS = 2
PROBLEM_JSON = "application/problem+json"
Responses = dict[int | str, dict[str, Any]]
"""Descriptions of a route's answers, by status, in the form that FastAPI takes."""
NATIVE_ERRORS: Responses = {
    "default": {
        "description": "A problem: what is wrong, with which value, and what to do",
        "content": {PROBLEM_JSON: {"schema": {"$ref": ref_of(Problem)}}},
    }
}
FLINK_ERRORS: Responses = {
    "default": {
        "description": "Errors as Flink's; a problem where the request accepts nothing else",
        "content": {
            "application/json": {"schema": {"$ref": ref_of(FlinkErrors)}},
            PROBLEM_JSON: {"schema": {"$ref": ref_of(Problem)}},
        },
    }
}
GRAPH_FAULTS: Responses = {
    422: {
        "description": "The job graph has faults, and all of them are listed; or what is asked for "
        "can never succeed",
        "content": NATIVE_ERRORS["default"]["content"],
    }
}
_STATUS: Mapping[type[DomainError], HTTPStatus] = {
    NotFound: HTTPStatus.NOT_FOUND,
    Conflict: HTTPStatus.CONFLICT,
    Rejected: HTTPStatus.UNPROCESSABLE_ENTITY,
    Malformed: HTTPStatus.BAD_REQUEST,
    Forbidden: HTTPStatus.UNAUTHORIZED,
    WrongAttemptToken: HTTPStatus.FORBIDDEN,
    RoleTooSmall: HTTPStatus.FORBIDDEN,
    FromAnotherSite: HTTPStatus.FORBIDDEN,
    Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    BodyTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    ArtifactTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    BodyTooSlow: HTTPStatus.REQUEST_TIMEOUT,
    HeadTooSlow: HTTPStatus.REQUEST_TIMEOUT,
    HeadTooLarge: HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    UnsupportedContentType: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
}


def install(app: FastAPI, routers: Sequence[APIRouter]) -> None:
    app.state.api_routes = [
        route for router in routers for route in router.routes if isinstance(route, APIRoute)
    ]
    app.add_exception_handler(DomainError, _on_domain_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(Exception, _on_bug)


def status_of(error: type[DomainError]) -> HTTPStatus:
    return next(
        _STATUS[family]
        for family in error.__mro__
        if issubclass(family, DomainError) and family in _STATUS
    )


def fault_shape(fault: Fault) -> GraphFault:
    return GraphFault(vertex=fault.vertex, field=fault.field, message=fault.message)


def response(scope: Scope, error: DomainError) -> JSONResponse:
    """Answer a request that was refused before it reached its route."""
    return _of_domain_error(Request(scope), error)


def without_route(error: DomainError) -> JSONResponse:
    """Answer where it is not known, or does not matter, what was asked for."""
    status = status_of(type(error))
    problem = _problem(status, type(error).__name__, error.title, str(error), "/")
    headers = {}
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return JSONResponse(problem, status, headers, media_type=PROBLEM_JSON)


def no_such_route(scope: Scope) -> JSONResponse:
    """Return the answer for a path that no route has, in Flink's words."""
    message = f"Unable to load requested file {Request(scope).url.path}."
    return JSONResponse({"errors": [message]}, HTTPStatus.NOT_FOUND)


async def _on_domain_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, DomainError)
    return _of_domain_error(request, error)


def _of_domain_error(request: Request, error: DomainError) -> JSONResponse:
    more: dict[str, Any] = {}
    if isinstance(error, InvalidJobGraph | StateDoesNotFit):
        more["faults"] = [fault_shape(one).model_dump() for one in error.faults]
    kind = type(error)
    return _answer(request, status_of(kind), kind.__name__, error.title, str(error), more)


async def _on_invalid_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    faults = [
        GraphFault(
            vertex=None, field=".".join(str(part) for part in one["loc"]), message=one["msg"]
        )
        for one in error.errors()
    ]
    detail = "; ".join(f"{fault.field}: {fault.message}" for fault in faults)
    title = "The request cannot be understood"
    more = {"faults": [one.model_dump() for one in faults]}
    return _answer(request, HTTPStatus.BAD_REQUEST, "MalformedRequest", title, detail, more)


async def _on_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    if status is HTTPStatus.NOT_FOUND:
        return no_such_route(request.scope)
    detail = str(error.detail)
    return _answer(request, status, status.phrase.replace(" ", ""), status.phrase, detail, {})


async def _on_bug(request: Request, error: Exception) -> JSONResponse:
    detail = f"{type(error).__name__}: the server's log has the details"
    status = HTTPStatus.INTERNAL_SERVER_ERROR
    answer = _answer(request, status, "InternalError", "Internal error", detail, {})
    # No middleware sees this answer: Starlette sends it outside of all of them.
    answer.headers.update({**ON_EVERY_ANSWER, POLICY: POLICY_OF_DATA})
    return answer


def _answer(
    request: Request,
    status: HTTPStatus,
    kind: str,
    title: str,
    detail: str,
    more: Mapping[str, Any],
) -> JSONResponse:
    headers = {}
    if "/runners/" in request.url.path:  # a runner has to know whose refusal it is
        headers[PROTOCOL_HEADER] = str(PROTOCOL_VERSION)
    if status is HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = 'Bearer realm="headgate"'
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    if _is_flinks(request.scope) and not _wants_problem(request):
        return JSONResponse({"errors": [f"{title}: {detail}"]}, status, headers)
    problem = {**_problem(status, kind, title, detail, request.url.path), **more}
    return JSONResponse(problem, status, headers, media_type=PROBLEM_JSON)


def _problem(
    status: HTTPStatus, kind: str, title: str, detail: str, instance: str
) -> dict[str, Any]:
    return {
        "type": f"/problems/{kind}",
        "title": title,
        "status": status,
        "detail": detail,
        "instance": instance,
    }


def _wants_problem(request: Request) -> bool:
    """Whether the client takes a problem, and nothing that Flink would answer."""
    accepted = request.headers.get("accept", "*/*").lower()
    others = ("application/json", "application/*", "*/*")
    return PROBLEM_JSON in accepted and not any(one in accepted for one in others)


def _is_flinks(scope: Scope) -> bool:
    if "route" in scope:
        return FLINK in getattr(scope["route"], "tags", ())
    path, method = scope["path"].removeprefix("/v1"), scope["method"]
    routes: Sequence[APIRoute] = scope["app"].state.api_routes
    for one in routes:  # the first route that matches, as when the request is routed
        if one.path_regex.match(path) and method in (one.methods or ()):
            return FLINK in one.tags
    return False
