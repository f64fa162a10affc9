"""The newest rows that a job has written to a sink, read from the output by the inspector."""

from datetime import timedelta

from jobmanager.core.errors import InspectorUnavailable, SinkNotFound, UnreadableOutput
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.ids import JobId
from jobmanager.protocol.inspection import ReadSinkRows, Refusal, SinkRows
from jobmanager.services.directives import RunSettings
from jobmanager.services.ports.inspection import Inspector
from jobmanager.services.ports.unit_of_work import UnitsOfWork

_TIME_FOR_AN_ANSWER = timedelta(minutes=2)


async def last_rows(
    units: UnitsOfWork,
    inspector: Inspector,
    settings: RunSettings,
    job_id: JobId,
    vertex: str,
    limit: int,
) -> SinkRows:
    """Raises `JobNotFound`, `SinkNotFound`, `UnreadableOutput` or `InspectorUnavailable`."""
    async with units() as uow:
        stored = await uow.jobs.get(job_id)
    _require_sink(stored.graph, vertex)
    question = ReadSinkRows(
        graph=dict(stored.document),
        job=job_id,
        vertex=vertex,
        limit=limit,
        parallelism=stored.parallelism,
        data_root=settings.data_root,
        storage=settings.storage,
        allowed_paths=settings.path_roots,
    )
    answer = await inspector.ask(question, _TIME_FOR_AN_ANSWER)
    match answer:
        case SinkRows():
            return answer
        case Refusal(reason="not_readable" | "bad_graph"):
            raise UnreadableOutput(answer.message)
        case Refusal():
            raise InspectorUnavailable(f"the rows of sink {vertex} were not read: {answer.message}")
        case _:
            raise InspectorUnavailable(f"the inspector gave another answer: {answer.kind}")


def _require_sink(graph: JobGraph, vertex: str) -> None:
    sinks = [one.id for one in graph.vertices if isinstance(one, Sink)]
    if vertex not in sinks:
        raise SinkNotFound(f"the job has no sink {vertex!r}; its sinks are {', '.join(sinks)}")
