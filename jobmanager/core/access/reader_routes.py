"""The routes that reader processes answer: everything they tell is in Postgres.

All other routes need the server's own process: writes, runners' calls, event streams, logs, the
inspector, and what a server tells of itself.
"""

from jobmanager.core.access.route_rules import rule_for

READER_ROUTES = frozenset(
    {
        "/applications/overview",
        "/config",
        "/jobs",
        "/jobs/overview",
        "/jobs/summary",
        "/jobs/{jobid}",
        "/jobs/{jobid}/checkpoints",
        "/jobs/{jobid}/checkpoints/config",
        "/jobs/{jobid}/checkpoints/details/{checkpointid}",
        "/jobs/{jobid}/checkpoints/{number}",
        "/jobs/{jobid}/config",
        "/jobs/{jobid}/exceptions",
        "/jobs/{jobid}/graph",
        "/jobs/{jobid}/history",
        "/jobs/{jobid}/key-groups",
        "/jobs/{jobid}/lag",
        "/jobs/{jobid}/operations",
        "/jobs/{jobid}/revisions",
        "/jobs/{jobid}/samples",
        "/jobs/{jobid}/status",
        "/operations/{oid}",
        "/overview",
        "/savepoints",
        "/savepoints/{sid}",
    }
)
"""Templates of `GET` routes, as in `ROUTE_RULES`."""


def is_for_readers(path: str) -> bool:
    """Whether a plain read of the path is answered by a reader process."""
    found = rule_for("GET", path)
    return found is not None and found[0].path in READER_ROUTES
