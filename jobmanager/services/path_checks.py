"""Whether what a client names is where this server lets clients read and write."""

import asyncio
from collections.abc import Sequence

from jobmanager.core.errors import Fault, PathNotAllowed
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.paths.allowed_paths import AllowedPaths, PathRules
from jobmanager.files import resolved_places


async def faults_of_graph(rules: PathRules | None, graph: JobGraph) -> Sequence[Fault]:
    """Every place in the graph that is not allowed."""
    if rules is None:
        return []
    return await asyncio.to_thread(resolved_places.graph_faults, rules.graphs, graph)


async def require_for_snapshot(rules: PathRules | None, what: str, place: str) -> None:
    """Raises `PathNotAllowed`. `what` is the field, or what the place is for."""
    if rules is not None:
        await _require(rules.snapshots, what, place)


async def require_for_graph(rules: PathRules | None, what: str, place: str) -> None:
    """Raises `PathNotAllowed`."""
    if rules is not None:
        await _require(rules.graphs, what, place)


async def _require(rule: AllowedPaths, what: str, place: str) -> None:
    if fault := await asyncio.to_thread(resolved_places.place_fault, rule, place):
        raise PathNotAllowed(f"{what}: {fault}")
