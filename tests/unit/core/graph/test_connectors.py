"""The list of connectors: one module on each side, and nothing that knows a connector by name."""

from dataclasses import is_dataclass
from datetime import timedelta
from typing import Any

import pytest

from jobmanager.core.errors import InvalidJobGraph
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.connectors import registry
from jobmanager.core.graph.connectors.connector import Connector
from taskrunner.core.failures import Cause, Explanation, classify
from taskrunner.spark.connectors import registry as spark_side
from taskrunner.spark.connectors.refreshes import Refreshes
from tests.support.builders import a_document

CLASSES: list[type[Connector]] = [*registry.SOURCES.values(), *registry.SINKS.values()]


def test_connectors_have_the_same_names_on_both_sides() -> None:
    ours = [one.__name__.rpartition(".")[2] for one in registry.MODULES]

    assert ours == [one.__name__.rpartition(".")[2] for one in spark_side.MODULES]


def test_every_source_has_a_reader_and_every_sink_a_writer() -> None:
    assert set(registry.SOURCES.values()) == set(spark_side.READERS)
    assert set(registry.SINKS.values()) == set(spark_side.WRITERS)


def test_no_name_is_given_to_two_connectors() -> None:
    for side in ("SOURCES", "SINKS"):
        names = [one.name for module in registry.MODULES for one in getattr(module, side)]
        assert len(names) == len(set(names))


@pytest.mark.parametrize("connector", CLASSES, ids=lambda one: one.__name__)
def test_a_connector_is_a_frozen_dataclass_that_reads_itself(connector: type[Connector]) -> None:
    assert is_dataclass(connector)
    assert "name" in vars(connector)
    assert "read" in vars(connector)


def faults_of(document: dict[str, Any]) -> list[tuple[str | None, str]]:
    with pytest.raises(InvalidJobGraph) as refused:
        graph_document.parse(document)
    return [(one.vertex, one.field) for one in refused.value.faults]


@pytest.mark.parametrize("position", [0, -1])
def test_of_an_unknown_connector_only_the_name_is_a_fault(position: int) -> None:
    document = a_document()
    vertex = document["vertices"][position]
    vertex |= {"connector": "pigeons", "wings": 2, "loft": "north"}

    assert faults_of(document) == [(vertex["id"], "connector")]


def test_a_message_about_an_unknown_connector_names_only_what_users_can_write() -> None:
    document = a_document()
    document["vertices"][0]["connector"] = "pigeons"

    with pytest.raises(InvalidJobGraph) as refused:
        graph_document.parse(document)

    [fault] = refused.value.faults
    assert "files, generator, table" in fault.message
    assert "script" not in fault.message


def test_what_a_connector_recognises_comes_before_the_general_classes_of_failures() -> None:
    causes = [Cause("AnalysisException", "topic orders is gone")]

    def explain(found: Any) -> Explanation | None:
        is_mine = "topic orders" in found[-1].message
        return Explanation(classified.kind, "create the topic", True) if is_mine else None

    classified = classify(causes, "stack", "out")
    explained = classify(causes, "stack", "out", [lambda found: None, explain])

    assert not classified.is_restartable
    assert (explained.message, explained.is_restartable) == ("create the topic", True)
    assert (explained.stack, explained.region) == ("stack", "out")


def test_a_refresh_runs_when_it_is_due_and_not_before() -> None:
    ran: list[str] = []
    refreshes = Refreshes()
    refreshes.add(timedelta(seconds=5), lambda: ran.append("five"), now=100.0)
    refreshes.add(timedelta(seconds=2), lambda: ran.append("two"), now=100.0)

    for now in (101.0, 102.5, 103.0, 105.0, 105.5):
        refreshes.run_due(now)

    assert ran == ["two", "five", "two"]
