"""Which jobs leave their process to another job."""

from typing import Any

import pytest

from jobmanager.core.graph import graph_document
from jobmanager.core.runner_reuse import can_be_cleaned, obstacle
from tests.support.builders import a_document


def obstacle_in(**changes: Any) -> str | None:
    document = {**a_document(), **changes}
    return obstacle(document, graph_document.parse(document))


def with_query(query: str) -> list[dict[str, Any]]:
    source, *_ = a_document()["vertices"]
    asked = {"id": "asked", "op": "sql", "inputs": [source["id"]], "query": query}
    return [source, asked, {"id": "out", "op": "sink", "inputs": ["asked"], "connector": "console"}]


def test_a_graph_of_built_in_operators_leaves_nothing() -> None:
    assert obstacle_in() is None
    assert obstacle_in(spark={"spark.sql.ansi.enabled": "false"}) is None


def test_a_setting_of_the_jvm_stays() -> None:
    found = obstacle_in(spark={"spark.driver.memory": "2g"})

    assert found == "spark.driver.memory can be set only when Spark starts"


def test_users_code_stays() -> None:
    source, *_ = a_document()["vertices"]
    vertices = [
        source,
        {
            "id": "own",
            "op": "spark",
            "inputs": [source["id"]],
            "function": "a:b",
            "output": "k INT",
        },
        {"id": "out", "op": "sink", "inputs": ["own"], "connector": "console"},
    ]

    assert obstacle_in(vertices=vertices) is not None
    assert obstacle_in(artifacts=["ab" * 32]) == "the graph names artifacts"


def test_a_query_that_calls_java_stays() -> None:
    plain = with_query("SELECT auction FROM bids")
    calls = with_query("SELECT reflect('java.lang.System', 'setProperty', 'a', 'b') FROM bids")

    assert obstacle_in(vertices=plain) is None
    assert obstacle_in(vertices=calls) == "the text of 'asked' calls a method of Java"


@pytest.mark.parametrize(
    ("master", "can"), [("local[2]", True), ("local", True), ("spark://host:7077", False)]
)
def test_only_processes_of_this_machine_can_be_cleaned(master: str, can: bool) -> None:
    assert can_be_cleaned(master) is can


def test_connector_packages_stay() -> None:
    source, *_ = a_document()["vertices"]
    sink = {
        "id": "out",
        "op": "sink",
        "inputs": [source["id"]],
        "connector": "files",
        "format": "avro",
        "path": "out",
    }

    found = obstacle_in(vertices=[source, sink])

    assert found == "connectors of avro keep connections and caches in the JVM"
