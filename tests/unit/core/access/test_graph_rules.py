"""Which graphs are built-in operators only, and which bring code along."""

from typing import Any

import pytest

from jobmanager.core.access.graph_rules import BUILT_IN, check_role_for_graph, role_of_graph
from jobmanager.core.access.roles import Role
from jobmanager.core.errors import RoleTooSmall
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.operators import OPERATORS
from tests.support.builders import a_document

RUN_CODE = {"process", "cogroup", "python", "spark", "script"}
SOURCE = {
    "id": "rows",
    "op": "source",
    "connector": "generator",
    "rows_per_second": 1,
    "columns": {"n": "value"},
}
SINK = {"id": "out", "op": "sink", "connector": "blackhole", "inputs": ["last"]}


def a_graph(*vertices: dict[str, Any], **more: Any) -> dict[str, Any]:
    last = {"id": "last", "op": "filter", "where": "true", "inputs": [vertices[-1]["id"]]}
    return {"name": "job", "vertices": [*vertices, last, SINK], **more}


def needed(document: dict[str, Any]) -> tuple[Role, str]:
    return role_of_graph(document, graph_document.parse(document))


def mapped(expression: str) -> dict[str, Any]:
    return {"id": "m", "op": "map", "select": {"x": expression}, "inputs": ["rows"]}


def queried(query: str) -> dict[str, Any]:
    return {"id": "q", "op": "sql", "query": query, "inputs": ["rows"]}


def test_every_operator_is_known_to_run_code_or_not_to() -> None:
    assert set(OPERATORS) == BUILT_IN | RUN_CODE
    assert not BUILT_IN & RUN_CODE


@pytest.mark.parametrize(
    "document",
    [
        a_document(),
        a_graph(SOURCE, mapped("n * 2")),
        a_graph(SOURCE, mapped("transform(array(n), x -> x + 1)[0]")),
        a_graph(SOURCE, queried("SELECT n FROM rows")),
        a_graph(SOURCE, queried("\n  with x as (select n from rows) select * from x")),
        a_graph(SOURCE, mapped("n"), spark={"spark.sql.session.timeZone": "UTC"}),
        a_graph(SOURCE, mapped("n"), spark={"spark.executor.memory": "2g"}),
    ],
    ids=range(7),
)
def test_built_in_operators_need_an_operator(document: dict[str, Any]) -> None:
    assert needed(document)[0] is Role.OPERATOR


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (a_graph(SOURCE, mapped("n"), artifacts=["a" * 64]), "artifacts"),
        (
            a_graph(
                SOURCE,
                {"id": "p", "op": "python", "function": "mine:f", "output": "n INT"}
                | {"inputs": ["rows"]},
            ),
            "mine:f",
        ),
        (a_graph({"id": "s", "op": "source", "connector": "python", "class": "m:C"}), "m:C"),
        *(
            (a_graph(SOURCE, mapped("n"), spark={setting: value}), setting)
            for setting, value in (
                ("spark.jars", "/tmp/evil.jar"),
                ("spark.jars.packages", "a:b:1"),
                ("spark.plugins", "a.B"),
                ("spark.sql.extensions", "a.B"),
                ("spark.sql.catalog.x", "a.B"),
                ("spark.driver.extraJavaOptions", "-javaagent:x.jar"),
                ("spark.pyspark.python", "/tmp/python"),
                ("spark.sql.cache.serializer", "a.B"),
                ("spark.driver.memory", "1g -XX:OnError=sh"),
            )
        ),
        *(
            (a_graph(SOURCE, mapped(text)), "'m'")
            for text in (
                "reflect('java.lang.System', 'exit', 1)",
                "REFLECT ('java.lang.System', 'getenv')",
                "`java_method`('a', 'b')",
                "system.builtin.try_reflect/**/('a', 'b')",
                "IDENTIFIER('ref' || 'lect')('a', 'b')",
                "${spark.my.word}('a', 'b')",
            )
        ),
        *(
            (a_graph(SOURCE, queried(text)), "'q'")
            for text in (
                "SELECT TRANSFORM (n) USING 'sh -c id' AS (x) FROM rows",
                "ADD JAR '/tmp/evil.jar'",
                "/* /* */ select 1 */ ADD JAR x",
                "-- \\\nselect\nCREATE FUNCTION f AS 'a.B'",
                "FROM rows INSERT INTO other SELECT *",
                "SET spark.x = y",
                "SELECT reflect('a', 'b') FROM rows",
            )
        ),
    ],
)
def test_code_needs_a_developer(document: dict[str, Any], why: str) -> None:
    role, told = needed(document)

    assert role is Role.DEVELOPER
    assert why in told


def test_a_function_in_a_built_in_operator_is_code() -> None:
    reduced = {"id": "r", "op": "reduce", "key": ["n"], "function": "mine:f", "inputs": ["rows"]}

    assert needed(a_graph(SOURCE, reduced))[0] is Role.DEVELOPER


def test_code_in_the_body_of_a_loop_is_code() -> None:
    body = {
        "id": "loop",
        "op": "iterate",
        "inputs": ["rows"],
        "rounds": 2,
        "body": {
            "vertices": [
                {"id": "step", "op": "map", "columns": {"n": "reflect('a', 'b')"}}
                | {"inputs": ["loop"]},
            ],
            "result": "step",
        },
    }
    role, _ = role_of_graph({"vertices": [body]}, graph_document.parse(a_document()))

    assert role is Role.DEVELOPER


def test_an_operator_is_told_what_to_do() -> None:
    document = a_graph(SOURCE, mapped("n"), artifacts=["a" * 64])
    graph = graph_document.parse(document)

    check_role_for_graph(Role.DEVELOPER, "dev", document, graph)
    with pytest.raises(RoleTooSmall, match=r"needs the role developer.*'ci' has the role operator"):
        check_role_for_graph(Role.OPERATOR, "ci", document, graph)


def test_a_graph_with_faults_cannot_bring_artifacts_in() -> None:
    with pytest.raises(RoleTooSmall):
        check_role_for_graph(Role.OPERATOR, "ci", {"artifacts": ["/etc/x.py"]}, None)
