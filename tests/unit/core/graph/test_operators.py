"""The list of operators: one entry an operator, and a compiler for each of its vertices."""

import subprocess
import sys
from dataclasses import fields
from typing import Any

import pytest

from jobmanager.core.errors import InvalidJobGraph
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.operators import FAMILIES, OPERATORS
from jobmanager.core.graph.process_functions import Process
from jobmanager.core.graph.vertex import Vertex
from taskrunner.spark.compile import operator_compilers
from taskrunner.spark.compile.operator_compilers import compiler_of
from tests.support.builders import a_document


def vertex_classes() -> list[type[Vertex]]:
    """Those that a graph can have: of some family, with a name in the language."""
    return [
        one
        for family in FAMILIES
        for one in vars(family).values()
        if isinstance(one, type) and issubclass(one, Vertex) and "op" in vars(one)
        if one.__module__ == family.__name__
    ]


def test_no_name_is_given_to_two_operators() -> None:
    names = [operator.name for family in FAMILIES for operator in family.OPERATORS]

    assert len(names) == len(set(names)) == len(OPERATORS)


def test_every_vertex_class_belongs_to_an_operator_and_every_operator_has_one() -> None:
    assert {one.op for one in vertex_classes()} == set(OPERATORS)


@pytest.mark.parametrize("vertex", vertex_classes(), ids=lambda one: one.__name__)
def test_every_vertex_class_has_a_compiler(vertex: type[Vertex]) -> None:
    assert compiler_of(vertex).vertex is vertex


def test_a_runner_does_not_wait_for_what_few_jobs_need() -> None:
    """pandas and Spark ML take a second to import, which the first job would wait."""
    asked = "import sys, taskrunner.__main__; print({'pandas', 'pyspark.ml'} & set(sys.modules))"
    found = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "set()"


def test_families_have_the_same_names_on_both_sides() -> None:
    ours = [one.__name__.rpartition(".")[2] for one in FAMILIES]

    assert ours == list(operator_compilers.FAMILIES)


@pytest.mark.parametrize("vertex", vertex_classes(), ids=lambda one: one.__name__)
def test_every_vertex_begins_with_id_and_inputs(vertex: type[Vertex]) -> None:
    assert [one.name for one in fields(vertex)][:2] == ["id", "inputs"]


def with_vertex(**vertex: Any) -> dict[str, Any]:
    document = a_document()
    document["vertices"][2:] = [
        {"id": "own", "inputs": ["big"], **vertex},
        {"id": "out", "op": "sink", "inputs": ["own"], "connector": "blackhole"},
    ]
    return document


def test_a_side_of_an_operator_that_there_is_not_is_no_fault_of_its_own() -> None:
    document = with_vertex(op="mapp")
    document["vertices"][-1]["inputs"] = [{"from": "own", "side": "late"}]

    with pytest.raises(InvalidJobGraph) as refused:
        graph_document.parse(document)

    assert [(one.vertex, one.field) for one in refused.value.faults] == [("own", "op")]


@pytest.mark.parametrize("op", ["process", "reduce"])
def test_the_key_of_a_function_has_to_be_there_like_any_other(op: str) -> None:
    output = {"output": "k INT"} if op == "process" else {}

    with pytest.raises(InvalidJobGraph) as refused:
        graph_document.parse(with_vertex(op=op, key=["nope"], function="m:f", **output))

    assert [(one.vertex, one.field) for one in refused.value.faults] == [("own", "key")]


def test_the_clock_of_a_process_function_is_not_a_column_that_it_needs() -> None:
    document = with_vertex(
        op="process", key=["auction"], function="m:f", output="k INT", time="processing"
    )

    [vertex] = [one for one in graph_document.parse(document).vertices if isinstance(one, Process)]

    assert list(vertex.needed_columns()) == [("key", "auction")]


def test_a_python_worker_does_not_import_spark_ml_with_the_code_of_keyed_functions() -> None:
    program = """
import sys
import taskrunner.spark.compile.process_functions, taskrunner.spark.compile.buffered_windows
print("pyspark.ml" in sys.modules)
"""

    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )

    assert ran.stdout.strip() == "False"
