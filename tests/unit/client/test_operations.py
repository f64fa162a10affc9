"""The Python clients have every operation of the OpenAPI document, and send what it says."""

import inspect
import re
from functools import cache
from typing import Any

import pytest

from jobmanager.api.app import make_app
from jobmanager.api.client_operations import OPERATIONS, client_operations, name_of, text
from jobmanager.client import AsyncClient, Client, operations
from jobmanager.client.api_call import ApiCall, AsyncMethod, Method
from jobmanager.client.server_events import AsyncEvents, Events


@cache
def _document() -> dict[str, Any]:
    return make_app().openapi()


def _operations() -> list[tuple[str, str]]:
    return [(method, path) for method, path, _ in client_operations(_document())]


def _functions() -> dict[str, Any]:
    return {
        name: one
        for name, one in inspect.getmembers(operations, inspect.isfunction)
        if one.__module__ == operations.__name__
    }


def test_the_operations_are_those_of_the_document() -> None:
    assert OPERATIONS.read_text() == text(_document()), "the routes have changed: run `make types`"


@pytest.mark.parametrize(
    ("client", "kinds"), [(Client, (Method, Events)), (AsyncClient, (AsyncMethod, AsyncEvents))]
)
def test_a_client_has_a_method_for_each_operation(client: type, kinds: tuple[type, ...]) -> None:
    methods = {name for name, one in inspect.getmembers(client) if isinstance(one, kinds)}

    assert methods == set(_functions())
    assert len(methods) == len(_operations())


def test_the_requests_of_all_functions_are_all_operations() -> None:
    asked = {_template(_example(function)) for function in _functions().values()}

    assert asked == set(_operations())


def _example(function: Any) -> ApiCall[Any]:
    """The request of a function that is given all that it needs."""
    values: dict[str, Any] = {"bytes": b"x", "int": 1, "tuple[str, bytes]": ("a", b"x")}
    needed = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
    ]
    chosen = {one.name: _value(one.annotation, values) for one in needed}
    call: ApiCall[Any] = function(**chosen)
    return call


def _value(annotation: Any, values: dict[str, Any]) -> Any:
    if annotation is bytes or annotation is int:
        return values[annotation.__name__]
    return {} if "Mapping" in str(annotation) else values.get(str(annotation), "x")


def _template(call: ApiCall[Any]) -> tuple[str, str]:
    fitting = [
        (method, path)
        for method, path in _operations()
        if method == call.method and re.fullmatch(re.sub(r"{\w+}", "[^/]+", path), call.path)
    ]
    return min(fitting, key=lambda one: one[1].count("{"))


def test_names_are_those_of_the_paths() -> None:
    assert name_of("GET", "/v1/jobs/{jobid}/checkpoints/{number}") == "get_job_checkpoint"
    assert name_of("GET", "/v1/jobs/{jobid}/vertices/{vertexid}/x-y") == "get_job_vertex_x_y"
    assert name_of("POST", "/v1/jobs") == "submit_job"


def test_a_part_of_a_path_stays_one_part() -> None:
    call = operations.get_job_state_key("7", "sums", "default", 'a/b?{"x"}')

    assert call.path == "/v1/jobs/7/state/sums/default/a%2Fb%3F%7B%22x%22%7D"


def test_a_list_is_sent_as_a_parameter_for_each_value() -> None:
    call = operations.get_jobs_summary(state=["running", "stalled"], limit=5)

    assert call.params == {"state": ["running", "stalled"], "limit": "5"}


def test_help_shows_the_parameters_of_an_operation() -> None:
    with Client("http://127.0.0.1:1") as client:
        shown = inspect.signature(client.rescale_job)
        handle = inspect.signature(client.jobs["a" * 32].rescale)

    assert list(shown.parameters) == ["job_id", "parallelism", "trigger_id"]
    assert list(handle.parameters) == ["parallelism", "timeout"]
    assert "graph" in inspect.signature(Client.submit).parameters


def test_only_requests_that_do_no_harm_twice_are_repeatable() -> None:
    never = {name for name, one in _functions().items() if not _example(one).is_repeatable}

    assert never == {
        "adopt_savepoint",
        "create_token",
        "create_webhook",
        "patch_job_client_heartbeat",
        "post_application_cancel",
        "post_jar_plan",
        "post_jar_run",
        "post_jar_run_application",
        "post_jars_upload",
        "post_jobmanager_profiler",
        "post_taskmanager_profiler",
        "test_webhook",
    }
