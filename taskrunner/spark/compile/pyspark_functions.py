"""The `spark` vertex: calls a user's function of DataFrames and checks the result."""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructType

from jobmanager.core.graph.pyspark_functions import Spark
from taskrunner.core.invalid_vertex import VertexRefused
from taskrunner.functions import load
from taskrunner.spark.compile import plan_states
from taskrunner.spark.compile.compile_context import CompileContext, OperatorCompiler


def _compile(vertex: Spark, inputs: Sequence[DataFrame], context: CompileContext) -> DataFrame:
    """The rows that the function returns. Raises `VertexRefused`, `FunctionMissing`."""
    function = load(vertex.function)
    try:
        made = function(inputs[0].sparkSession, *inputs)
    except Exception as error:
        raise VertexRefused(f"{vertex.function} raised {type(error).__name__}: {error}") from error
    if not isinstance(made, DataFrame):
        raise VertexRefused(
            f"{vertex.function} gave back {type(made).__name__}, and not a DataFrame"
        )
    faults = [*_schema_faults(vertex, made), *_plan_faults(vertex, made, inputs)]
    if faults:
        raise VertexRefused("; ".join(faults))
    return made


def _schema_faults(vertex: Spark, made: DataFrame) -> Iterator[str]:
    wanted: dict[str, DataType] = _types(StructType.fromDDL(vertex.output))
    found = _types(made.schema)
    for name, wanted_type in wanted.items():
        if name not in found:
            yield f"output: {vertex.function} gives no column {name!r}, only {', '.join(found)}"
        elif found[name].simpleString() != wanted_type.simpleString():
            yield (
                f"output: column {name!r} is {found[name].simpleString()} and not "
                f"{wanted_type.simpleString()}"
            )
    if extra := [name for name in found if name not in wanted]:
        yield f"output: {vertex.function} also gives {', '.join(extra)}: name or drop them"


def _plan_faults(vertex: Spark, made: DataFrame, inputs: Sequence[DataFrame]) -> Iterator[str]:
    if not any(one.isStreaming for one in inputs):
        return  # a batch job keeps no state
    found = plan_states.look(made, inputs)
    names = [one.vertex for one in vertex.inputs]
    streaming = tuple(number for number, one in enumerate(inputs) if one.isStreaming)
    if found.sources:
        yield f"it reads {', '.join(found.sources)} by itself: make that a source of the graph"
    if found.inputs != streaming:
        used = ", ".join(names[number] for number in found.inputs) or "none"
        yield (
            f"inputs: it uses {used}, and Spark knows its sources by their order: name every "
            "input once, in the order in which the function uses them"
        )
    if found.state != vertex.state:
        kept = [kind.value for kind in found.state]
        if kept:
            yield f"it keeps state, which the plan has to know: write state: [{', '.join(kept)}]"
        else:
            yield "it keeps no state: leave the field state out"
    elif found.state_after_input:
        yield "it keeps state after an input that has state too: split it into two vertices"


def _types(schema: Any) -> dict[str, DataType]:
    return {field.name: field.dataType for field in schema.fields}


COMPILERS = (OperatorCompiler(Spark, _compile),)
