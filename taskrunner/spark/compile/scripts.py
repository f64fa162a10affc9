"""`script` as a DataFrame: the rows of one query of a user's script."""

from collections.abc import Sequence

from pyspark.sql import DataFrame

from jobmanager.core.graph.scripts import Script
from taskrunner.spark.compile.compile_context import CompileContext, OperatorCompiler


def _compile(vertex: Script, inputs: Sequence[DataFrame], context: CompileContext) -> DataFrame:
    return context.run_script(vertex)


COMPILERS = (OperatorCompiler(Script, _compile, takes_inputs=False),)
