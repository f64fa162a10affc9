"""The connector `spark`, and the jars that a format of files needs."""

from typing import Any

import pytest

from jobmanager.core.access.graph_rules import role_of_graph
from jobmanager.core.access.roles import Role
from jobmanager.core.errors import InvalidJobGraph
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.connector_requirements import required_packages
from jobmanager.core.graph.sinks import Sink
from tests.unit.core.graph.test_table_connectors import a_graph, faults_of

PULSAR = {"connector": "spark", "format": "pulsar", "jars": ["pulsar"]}


def test_a_source_and_a_sink_of_any_data_source() -> None:
    document = a_graph({**PULSAR, "options": {"topic": "a"}}, {**PULSAR}, mode="streaming")
    graph = graph_document.parse(document)
    assert required_packages(graph) == {"pulsar"}
    assert role_of_graph(document, graph)[0] is Role.DEVELOPER
    sink = graph.vertices[1]
    assert isinstance(sink, Sink)
    assert not sink.is_fenced


def test_the_guarantee_is_the_users_word_and_is_shown_as_such() -> None:
    graph = graph_document.parse(a_graph(sink={**PULSAR, "guarantee": "exactly_once"}))
    sink = graph.vertices[1]
    assert isinstance(sink, Sink)
    assert sink.connector.guarantee == "exactly once, as the job graph states"


def test_jars_are_named_by_their_package() -> None:
    found = faults_of(a_graph(sink={**PULSAR, "jars": ["io.streamnative:pulsar:4.0"]}))
    assert "headgate connectors install NAME" in found["jars"]


@pytest.mark.parametrize("format_name", ["", "a b", "file:/x"])
def test_a_format_is_a_name(format_name: str) -> None:
    with pytest.raises(InvalidJobGraph):
        graph_document.parse(a_graph(sink={"connector": "spark", "format": format_name}))


def test_avro_files_need_the_jar_of_avro() -> None:
    files: dict[str, Any] = {"connector": "files", "format": "avro", "path": "out"}
    assert required_packages(graph_document.parse(a_graph(sink=files))) == {"avro"}
    source = {**files, "schema": "id BIGINT"}
    assert required_packages(graph_document.parse(a_graph(source))) == {"avro"}
