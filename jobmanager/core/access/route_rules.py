"""The role that each route needs: one table, in the order in which routes are matched.

Only an admin reaches a route that is missing from the table. A test compares the table with the
routes of the application. `graph_rules` says what a job graph needs in addition to its route.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from jobmanager.core.access.roles import Role

_VERSION = "/v1"
_MOST_SLASHES = 12
"""More than any rule has. Paths with more slashes match the same rules."""


class NoRole(StrEnum):
    """Routes for which no user's role is checked."""

    OPEN = "open"
    """Anybody may use the route: its answers contain no data."""
    RUNNER = "runner"
    """Only runners may use the route, each with the token it was launched with."""


@dataclass(frozen=True, slots=True)
class RouteRule:
    method: str
    path: str
    """The path template, without /v1."""
    needs: Role | NoRole
    what: str
    """What the route does, as the beginning of a sentence: "… needs the role admin"."""

    changes: bool = False
    """Whether the route changes something although its method is that of a read."""

    @property
    def is_write(self) -> bool:
        return self.changes or self.method not in ("GET", "HEAD", "OPTIONS")


def rule_for(method: str, path: str) -> tuple[RouteRule, dict[str, str]] | None:
    """Return the rule of a request and the parameters in its path; None: no route matches."""
    bare = path[len(_VERSION) :] if path.startswith(f"{_VERSION}/") else path
    asked = "GET" if method == "HEAD" else method
    slashes = min(bare.count("/"), _MOST_SLASHES)
    for rule, pattern in _index().get((asked, slashes), ()):
        if found := pattern.fullmatch(bare):
            return rule, found.groupdict()
    return None


@cache
def _index() -> Mapping[tuple[str, int], Sequence[tuple[RouteRule, re.Pattern[str]]]]:
    """Return, by method and number of slashes, the rules that a path may match, in their order. To
    try all rules would take as long as much of the rest of a read.
    """
    index: dict[tuple[str, int], list[tuple[RouteRule, re.Pattern[str]]]] = {}
    for rule in ROUTE_RULES:
        least, pattern = rule.path.count("/"), _pattern(rule.path)
        most = _MOST_SLASHES if ":path}" in rule.path else least
        for slashes in range(least, most + 1):
            index.setdefault((rule.method, slashes), []).append((rule, pattern))
    return index


def _pattern(template: str) -> re.Pattern[str]:
    """Compile a template as Starlette does: only a parameter of kind `path` may contain slashes."""
    parts = re.split(r"\{(\w+)(:path)?\}", template)
    pattern = re.escape(parts[0])
    for name, kind, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        pattern += f"(?P<{name}>{'.*' if kind else '[^/]+'}){re.escape(text)}"
    return re.compile(pattern, re.DOTALL)


_V, _O, _D, _A = Role.VIEWER, Role.OPERATOR, Role.DEVELOPER, Role.ADMIN
_OPEN, _RUNNER = NoRole.OPEN, NoRole.RUNNER

ROUTE_RULES: tuple[RouteRule, ...] = (
    # what runners say and ask
    RouteRule("GET", "/runners/{runner_id}/directives", _RUNNER, "a runner's directives"),
    RouteRule("POST", "/runners/{runner_id}/heartbeat", _RUNNER, "a runner's heartbeat"),
    RouteRule("POST", "/runners/{runner_id}/acks", _RUNNER, "a runner's acks"),
    RouteRule("GET", "/runners", _V, "the list of runners"),
    RouteRule("POST", "/runners/{runner_id}/register", _RUNNER, "a runner's registration"),
    RouteRule("POST", "/runners/{runner_id}/declines", _RUNNER, "a runner's decline"),
    RouteRule("POST", "/runners/{runner_id}/attempt", _RUNNER, "a runner's report"),
    # jobs, as Flink has them
    RouteRule("GET", "/jobs/summary", _V, "the summary of jobs"),
    RouteRule("GET", "/overview", _V, "the overview of the cluster"),
    RouteRule("GET", "/config", _V, "the configuration of the dashboard"),
    RouteRule("GET", "/jobmanager/metrics", _V, "figures of the JobManager"),
    RouteRule("GET", "/taskmanagers/metrics", _V, "figures of runners"),
    RouteRule("GET", "/taskmanagers/{taskmanagerid}/metrics", _V, "figures of a runner"),
    RouteRule("GET", "/jobs/metrics", _V, "figures of jobs"),
    RouteRule("GET", "/jobs/{jobid}/metrics", _V, "a job's figures"),
    RouteRule("GET", "/jobs/{jobid}/vertices/{vertexid}/metrics", _V, "a task's figures"),
    RouteRule(
        "GET", "/jobs/{jobid}/vertices/{vertexid}/jm-operator-metrics", _V, "a task's figures"
    ),
    RouteRule("GET", "/jobs/{jobid}/vertices/{vertexid}/subtasks/metrics", _V, "a task's figures"),
    RouteRule(
        "GET",
        "/jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}/metrics",
        _V,
        "a subtask's figures",
    ),
    RouteRule("GET", "/jobs", _V, "the list of jobs"),
    RouteRule("GET", "/jobs/overview", _V, "the overview of jobs"),
    RouteRule("GET", "/jobs/{jobid}", _V, "a job"),
    RouteRule("PATCH", "/jobs/{jobid}", _O, "cancelling a job"),
    RouteRule("GET", "/jobs/{jobid}/plan", _V, "a job's plan"),
    RouteRule("GET", "/jobs/{jobid}/config", _V, "a job's configuration"),
    RouteRule("GET", "/jobs/{jobid}/exceptions", _V, "a job's exceptions"),
    RouteRule("GET", "/jobs/{jobid}/accumulators", _V, "a job's accumulators"),
    RouteRule("GET", "/jobs/{jobid}/vertices/{vertexid}/accumulators", _V, "accumulators"),
    RouteRule("GET", "/jobs/{jobid}/vertices/{vertexid}/subtasks/accumulators", _V, "accumulators"),
    RouteRule(
        "GET",
        "/jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}/attempts/{attempt}/accumulators",
        _V,
        "accumulators",
    ),
    RouteRule("GET", "/jobs/{jobid}/checkpoints", _V, "a job's checkpoints"),
    RouteRule("GET", "/jobs/{jobid}/checkpoints/config", _V, "how a job is checkpointed"),
    RouteRule("GET", "/jobs/{jobid}/checkpoints/details/{checkpointid}", _V, "a checkpoint"),
    RouteRule(
        "GET",
        "/jobs/{jobid}/checkpoints/details/{checkpointid}/subtasks/{vertexid}",
        _V,
        "a checkpoint",
    ),
    RouteRule("POST", "/jobs/{jobid}/savepoints", _O, "taking a savepoint"),
    RouteRule("POST", "/jobs/{jobid}/stop", _O, "stopping a job"),
    RouteRule("GET", "/jobs/{jobid}/savepoints/{triggerid}", _V, "how a savepoint went"),
    RouteRule("POST", "/savepoint-disposal", _O, "disposing of a savepoint"),
    RouteRule("GET", "/savepoint-disposal/{triggerid}", _V, "how a disposal went"),
    RouteRule("PATCH", "/jobs/{jobid}/rescaling", _O, "rescaling a job"),
    RouteRule("GET", "/jobs/{jobid}/rescaling/{triggerid}", _V, "how a rescale went"),
    RouteRule("GET", "/jobs/{jobid}/resource-requirements", _V, "a job's requirements"),
    RouteRule("PUT", "/jobs/{jobid}/resource-requirements", _O, "rescaling a job"),
    RouteRule("GET", "/jobs/{jobid}/rescales/config", _V, "how a job is rescaled"),
    RouteRule("GET", "/jobs/{jobid}/rescales/overview", _V, "a job's rescales"),
    RouteRule("GET", "/jobs/{jobid}/rescales/summary", _V, "a job's rescales"),
    RouteRule("GET", "/jobs/{jobid}/rescales/history", _V, "a job's rescales"),
    RouteRule("GET", "/jobs/{jobid}/rescales/details/{rescaleuuid}", _V, "a rescale"),
    RouteRule("GET", "/jobs/{jobid}/vertices/{vertexid}", _V, "a task"),
    RouteRule("GET", "/jobs/{jobid}/vertices/{vertexid}/subtasktimes", _V, "a task's times"),
    RouteRule("GET", "/jobs/{jobid}/vertices/{vertexid}/taskmanagers", _V, "a task's runner"),
    RouteRule("GET", "/jobs/{jobid}/vertices/{vertexid}/watermarks", _V, "a task's watermarks"),
    RouteRule("GET", "/jobs/{jobid}/vertices/{vertexid}/backpressure", _V, "a task's pressure"),
    RouteRule("GET", "/jobs/{jobid}/vertices/{vertexid}/flamegraph", _V, "a flame graph"),
    RouteRule("GET", "/jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}", _V, "a subtask"),
    RouteRule(
        "GET",
        "/jobs/{jobid}/vertices/{vertexid}/subtasks/{subtaskindex}/attempts/{attempt}",
        _V,
        "a subtask",
    ),
    RouteRule("GET", "/jobs/{jobid}/execution-result", _V, "how a job ended"),
    RouteRule("GET", "/jars", _V, "the list of jars"),
    RouteRule("POST", "/jars/upload", _D, "uploading code"),
    RouteRule("DELETE", "/jars/{jarid}", _D, "deleting a jar"),
    RouteRule("GET", "/jars/{jarid}/plan", _D, "the plan of a jar"),
    RouteRule("POST", "/jars/{jarid}/plan", _D, "the plan of a jar"),
    RouteRule("POST", "/jars/{jarid}/run", _D, "running a jar"),
    RouteRule("POST", "/jars/{jarid}/run-application", _D, "running a jar"),
    RouteRule("GET", "/taskmanagers", _V, "the list of runners"),
    RouteRule("GET", "/taskmanagers/{taskmanagerid}", _V, "a runner"),
    RouteRule("GET", "/taskmanagers/{taskmanagerid}/logs", _V, "a runner's logs"),
    RouteRule("GET", "/taskmanagers/{taskmanagerid}/logs/{logname}", _V, "a runner's log"),
    RouteRule("GET", "/taskmanagers/{taskmanagerid}/log", _V, "a runner's log"),
    RouteRule("GET", "/taskmanagers/{taskmanagerid}/stdout", _V, "a runner's log"),
    RouteRule("GET", "/taskmanagers/{taskmanagerid}/thread-dump", _V, "a runner's threads"),
    RouteRule("GET", "/jobs/{jobid}/taskmanagers/{taskmanagerid}/log-url", _V, "a runner's log"),
    RouteRule("GET", "/jobmanager/config", _V, "the server's settings"),
    RouteRule("GET", "/jobmanager/environment", _V, "the server's environment"),
    RouteRule("GET", "/jobmanager/logs", _V, "the server's logs"),
    RouteRule("GET", "/jobmanager/logs/{logname}", _V, "the server's logs"),
    RouteRule("GET", "/jobmanager/log", _V, "the server's logs"),
    RouteRule("GET", "/jobmanager/stdout", _V, "the server's logs"),
    RouteRule("GET", "/jobmanager/thread-dump", _V, "the server's threads"),
    RouteRule("GET", "/jobs/{jobid}/jobmanager/config", _V, "the server's settings"),
    RouteRule("GET", "/jobs/{jobid}/jobmanager/environment", _V, "the server's environment"),
    RouteRule("GET", "/jobs/{jobid}/jobmanager/log-url", _V, "a job's log"),
    RouteRule("GET", "/applications/overview", _V, "the list of applications"),
    RouteRule("GET", "/applications/{applicationid}", _V, "an application"),
    RouteRule("POST", "/applications/{applicationid}/cancel", _O, "cancelling an application"),
    RouteRule("GET", "/applications/{applicationid}/exceptions", _V, "a job's exceptions"),
    RouteRule("GET", "/applications/{applicationid}/jobmanager/config", _V, "the settings"),
    RouteRule("GET", "/jobs/{jobid}/yarn-cancel", _O, "cancelling a job", changes=True),
    RouteRule("GET", "/jobs/{jobid}/yarn-stop", _O, "stopping a job", changes=True),
    RouteRule("DELETE", "/cluster", _A, "ending the server"),
    RouteRule("GET", "/datasets", _V, "the list of data sets"),
    RouteRule("GET", "/datasets/delete/{triggerid}", _V, "how a deletion went"),
    RouteRule("DELETE", "/datasets/{datasetid}", _O, "deleting a data set"),
    RouteRule("PATCH", "/jobs/{jobid}/clientHeartbeat", _O, "a client's heartbeat"),
    RouteRule("GET", "/jobmanager/profiler", _V, "profiler runs"),
    RouteRule("POST", "/jobmanager/profiler", _O, "profiling the server"),
    RouteRule("GET", "/taskmanagers/{taskmanagerid}/profiler", _V, "profiler runs"),
    RouteRule("POST", "/taskmanagers/{taskmanagerid}/profiler", _O, "profiling a runner"),
    # jobs, checkpoints and savepoints, as Headgate has them
    RouteRule("POST", "/jobs", _O, "submitting a job"),
    RouteRule("POST", "/jobs/{jobid}/pause", _O, "pausing a job"),
    RouteRule("POST", "/jobs/{jobid}/resume", _O, "resuming a job"),
    RouteRule("GET", "/jobs/{jobid}/graph", _V, "a job's graph"),
    RouteRule("GET", "/jobs/{jobid}/status", _V, "a job's status"),
    RouteRule("GET", "/jobs/{jobid}/key-groups", _V, "a job's key groups"),
    RouteRule("GET", "/jobs/{jobid}/history", _V, "a job's history"),
    RouteRule("POST", "/jobs/{jobid}/checkpoints", _O, "taking a checkpoint"),
    RouteRule("GET", "/jobs/{jobid}/checkpoints/{number}", _V, "a checkpoint"),
    RouteRule("POST", "/jobs/{jobid}/checkpoints/{number}/verify", _O, "verifying a checkpoint"),
    RouteRule("GET", "/savepoints", _V, "the list of savepoints"),
    RouteRule("GET", "/savepoints/{sid}", _V, "a savepoint"),
    RouteRule("PATCH", "/savepoints/{sid}", _O, "labelling a savepoint"),
    RouteRule("DELETE", "/savepoints/{sid}", _O, "disposing of a savepoint"),
    RouteRule("POST", "/savepoints/adopt", _O, "adopting a checkpoint"),
    RouteRule("POST", "/savepoints/{sid}/verify", _O, "verifying a savepoint"),
    RouteRule("GET", "/operations/{oid}", _V, "an operation"),
    RouteRule("GET", "/jobs/{jobid}/operations", _V, "a job's operations"),
    RouteRule("POST", "/jobs/{jobid}/upgrade", _O, "upgrading a job"),
    # state
    RouteRule("GET", "/inspector", _V, "the inspector"),
    RouteRule("GET", "/jobs/{jobid}/state", _V, "a job's state"),
    RouteRule("GET", "/jobs/{jobid}/state/{vertex}/{name}", _V, "a job's state"),
    RouteRule("GET", "/jobs/{jobid}/state/{vertex}/{name}/key-groups", _V, "a job's state"),
    RouteRule("GET", "/jobs/{jobid}/state/{vertex}/{name}/{key:path}", _V, "a job's state"),
    RouteRule("GET", "/savepoints/{sid}/state", _V, "a savepoint's state"),
    RouteRule("GET", "/savepoints/{sid}/state/{vertex}/{name}", _V, "a savepoint's state"),
    RouteRule(
        "GET", "/savepoints/{sid}/state/{vertex}/{name}/key-groups", _V, "a savepoint's state"
    ),
    RouteRule(
        "GET", "/savepoints/{sid}/state/{vertex}/{name}/{key:path}", _V, "a savepoint's state"
    ),
    RouteRule("GET", "/jobs/{jobid}/sinks/{vertex}/rows", _O, "the rows of a sink"),
    # storage and code
    RouteRule("POST", "/gc", _A, "collecting garbage"),
    RouteRule("POST", "/artifacts", _D, "uploading code"),
    RouteRule("GET", "/artifacts", _V, "the list of artifacts"),
    RouteRule("GET", "/artifacts/{aid}", _V, "an artifact"),
    RouteRule("DELETE", "/artifacts/{aid}", _D, "deleting an artifact"),
    RouteRule("POST", "/scripts/describe", _D, "running a script's set-up"),
    # what there is to watch
    RouteRule("GET", "/jobs/{jobid}/logs", _V, "a job's log"),
    RouteRule("GET", "/jobs/{jobid}/samples", _V, "a job's figures"),
    RouteRule("GET", "/jobs/{jobid}/lag", _V, "a job's figures"),
    RouteRule("GET", "/jobs/{jobid}/revisions", _V, "a job's revisions"),
    RouteRule("GET", "/events", _V, "the events"),
    RouteRule("GET", "/jobs/{jobid}/events", _V, "a job's events"),
    RouteRule("GET", "/jobmanagers", _V, "the list of JobManagers"),
    # who may do what
    RouteRule("GET", "/whoami", _V, "who I am"),
    RouteRule("POST", "/tokens", _A, "creating a token"),
    RouteRule("GET", "/tokens", _A, "the list of tokens"),
    RouteRule("DELETE", "/tokens/{name}", _A, "revoking a token"),
    RouteRule("GET", "/audit", _A, "the audit"),
    # who is told of what
    RouteRule("POST", "/webhooks", _A, "creating a webhook"),
    RouteRule("GET", "/webhooks", _O, "the list of webhooks"),
    RouteRule("DELETE", "/webhooks/{name}", _A, "deleting a webhook"),
    RouteRule("POST", "/webhooks/{name}/test", _O, "testing a webhook"),
    RouteRule("GET", "/webhooks/{name}/deliveries", _O, "a webhook's deliveries"),
    # the server itself
    RouteRule("GET", "/healthz", _OPEN, "whether the process is alive"),
    RouteRule("GET", "/readyz", _OPEN, "whether requests can be served"),
    RouteRule("GET", "/metrics", _V, "the metrics"),
    # files of the dashboard and of the API's documentation: they hold no data
    RouteRule("GET", "/", _OPEN, "the dashboard"),
    RouteRule("GET", "/favicon.svg", _OPEN, "the dashboard"),
    RouteRule("GET", "/theme.js", _OPEN, "the dashboard"),
    RouteRule("GET", "/assets/{name}", _OPEN, "the dashboard"),
    RouteRule("GET", "/openapi.json", _OPEN, "the API's documentation"),
    RouteRule("GET", "/docs", _OPEN, "the API's documentation"),
    RouteRule("GET", "/docs/oauth2-redirect", _OPEN, "the API's documentation"),
    RouteRule("GET", "/redoc", _OPEN, "the API's documentation"),
    RouteRule("GET", "/static-offline-docs/{file:path}", _OPEN, "the API's documentation"),
)
