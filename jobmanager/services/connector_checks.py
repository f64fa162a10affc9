"""Whether the connector packages that a graph needs are installed."""

import asyncio
from collections.abc import Sequence

from jobmanager.core.errors import Fault
from jobmanager.core.graph.connector_requirements import requirements
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.files.connector_shelf import ConnectorShelf


async def faults_of_graph(shelf: ConnectorShelf | None, graph: JobGraph) -> Sequence[Fault]:
    """Every vertex whose connector lacks a package, with the command that installs it."""
    needed = list(requirements(graph))
    if shelf is None or not needed:
        return []
    faults = await asyncio.to_thread(lambda: {name: shelf.fault(name) for _, name in needed})
    return [
        Fault(vertex, "connector", message)
        for vertex, name in needed
        if (message := faults[name]) is not None
    ]
