"""Lets Spark analyse a job graph, without a job or beside a running job."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from jobmanager.core.errors import Fault, InspectorUnavailable, InvalidJobGraph
from jobmanager.core.ids import RegionId
from jobmanager.protocol.inspection import Analysed, AnalyseGraph, Refusal
from jobmanager.services.directives import RunSettings
from jobmanager.services.ports.inspection import Inspector

_TIME_FOR_AN_ANALYSIS = timedelta(minutes=2)


async def plans_of(
    inspector: Inspector,
    document: Mapping[str, Any],
    parallelism: int,
    settings: RunSettings,
) -> dict[RegionId, str]:
    """Return Spark's physical plan of each region. Raises `InvalidJobGraph` with every fault that
    Spark finds, or `InspectorUnavailable`.
    """
    question = AnalyseGraph(
        graph=dict(document),
        parallelism=parallelism,
        data_root=settings.data_root,
        storage=settings.storage,
        allowed_paths=settings.path_roots,
    )
    answer = await inspector.ask(question, _TIME_FOR_AN_ANALYSIS)
    if not isinstance(answer, Analysed):
        told = answer.message if isinstance(answer, Refusal) else answer.kind
        raise InspectorUnavailable(f"the graph was not analysed: {told}")
    if answer.faults:
        raise InvalidJobGraph([Fault(one.vertex, one.field, one.message) for one in answer.faults])
    return {RegionId(one.region): one.text for one in answer.plans}
