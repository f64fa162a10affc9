"""Which jobs leave their runner's process fit for another job.

A process that served one job may serve the next job only if nothing of the first job can be left in
the process that could watch or disturb the next: neither users' code nor settings that Spark keeps
until its JVM ends. Both programs ask this rule, and the JobManager's answer counts: a runner that
has run users' code could say anything.
"""

from collections.abc import Mapping
from typing import Any

from jobmanager.core.access.graph_rules import role_of_graph
from jobmanager.core.access.roles import Role
from jobmanager.core.graph.connector_requirements import required_packages
from jobmanager.core.graph.job_graph import JobGraph


def static_settings(graph: JobGraph) -> list[str]:
    """Return the job's Spark settings that can be set only when Spark starts."""
    return [name for name in graph.spark if not name.startswith("spark.sql.")]


def can_be_cleaned(spark_master: str) -> bool:
    """Whether a process can end everything that Spark has started for it: Python workers on the
    executors of a cluster are out of its reach.
    """
    return spark_master.startswith("local")


def obstacle(document: Mapping[str, Any], graph: JobGraph) -> str | None:
    """Return why the process of this job's runner must not serve another job; None: it may."""
    if static := static_settings(graph):
        return f"{', '.join(static)} can be set only when Spark starts"
    if needs := required_packages(graph):
        return f"connectors of {', '.join(sorted(needs))} keep connections and caches in the JVM"
    role, why = role_of_graph(document, graph)
    return None if role is Role.OPERATOR else why
