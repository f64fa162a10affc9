"""Use case: derive the job graph of a script. Nothing is stored; the graph is submitted like any
other.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from jobmanager.core.errors import (
    Fault,
    InspectorUnavailable,
    InvalidJobGraph,
    UnusableScript,
)
from jobmanager.core.graph.script_graph import (
    FoundQuery,
    FoundSink,
    ScriptCall,
    UnsupportedScript,
    graph_of,
)
from jobmanager.core.ids import ArtifactId
from jobmanager.protocol.inspection import DescribeScript, Refusal, ScriptDescribed
from jobmanager.services.ports.inspection import Inspector
from jobmanager.services.ports.unit_of_work import UnitsOfWork

TIME_FOR_A_SCRIPT = timedelta(minutes=2)
_UNAVAILABLE = ("not_in_time", "internal")


async def describe(
    units: UnitsOfWork,
    inspector: Inspector,
    call: ScriptCall,
    data_root: str,
    storage: str,
) -> dict[str, object]:
    """Return the job-graph document. The script runs in the inspector up to where it waits for its
    queries, none of which starts. Raises `InvalidJobGraph`, `UnusableScript`,
    `InspectorUnavailable`.
    """
    async with units() as uow:
        held = [await uow.artifacts.hold(ArtifactId(one)) for one in (call.script, *call.artifacts)]
    missing = [
        Fault(None, "artifacts", f"there is no artifact {one}: upload it")
        for one, found in zip((call.script, *call.artifacts), held, strict=True)
        if found is None
    ]
    if missing or held[0] is None:
        raise InvalidJobGraph(missing)
    if not held[0].name.endswith(".py"):
        raise UnusableScript(f"{held[0].name} is not a script: a script is a .py file")
    named = replace(call, name=call.name or held[0].name.removesuffix(".py"))
    question = DescribeScript(
        script=call.script,
        arguments=list(call.arguments),
        artifacts=list(call.artifacts),
        parallelism=call.parallelism or 1,
        spark=dict(call.spark),
        data_root=data_root,
        storage=storage,
    )
    answer = await inspector.ask(question, TIME_FOR_A_SCRIPT)
    if isinstance(answer, Refusal) and answer.reason not in _UNAVAILABLE:
        raise UnusableScript(answer.message)
    if not isinstance(answer, ScriptDescribed):
        told = answer.message if isinstance(answer, Refusal) else answer.kind
        raise InspectorUnavailable(f"the script was not read: {told}")
    try:
        return graph_of(named, _found(answer))
    except UnsupportedScript as error:
        raise UnusableScript(str(error)) from error


def _found(answer: ScriptDescribed) -> Sequence[FoundQuery]:
    return [
        FoundQuery(
            name=one.name,
            sources=one.sources,
            state=one.state,
            output_mode=one.output_mode,
            trigger=one.trigger,
            sink=FoundSink(
                format=one.sink.format,
                path=one.sink.path,
                options=one.sink.options,
                partition_by=one.sink.partition_by,
                table=one.sink.table,
                function=one.sink.function,
            ),
        )
        for one in answer.queries
    ]
