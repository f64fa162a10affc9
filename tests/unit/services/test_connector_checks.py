"""A graph whose connectors lack a package is refused, with the command."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

import pytest

from jobmanager.core.connector_packages import ConnectorPackage, parse_coordinates
from jobmanager.core.graph import graph_document
from jobmanager.core.graph.connector_requirements import required_packages
from jobmanager.core.graph.connectors.sink_connector import SinkConnector
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.ids import RunnerId
from jobmanager.files.connector_shelf import ConnectorShelf
from jobmanager.launchers.local import LocalLauncher
from jobmanager.services import connector_checks
from jobmanager.services.dispatch import launch_description
from tests.support.builders import a_document


@dataclass(frozen=True, slots=True)
class PigeonSink(SinkConnector):
    name: ClassVar[str] = "pigeons"

    @property
    def requires(self) -> tuple[str, ...]:
        return ("pigeons", "lofts")


def a_graph_with_pigeons() -> JobGraph:
    graph = graph_document.parse(a_document())
    vertices = [
        replace(one, connector=PigeonSink()) if isinstance(one, Sink) else one
        for one in graph.vertices
    ]
    return replace(graph, vertices=tuple(vertices))


@pytest.fixture
def shelf(tmp_path: Path) -> ConnectorShelf:
    pigeons = ConnectorPackage("pigeons", "", (parse_coordinates("org.example:pigeons:1"),))
    lofts = ConnectorPackage("lofts", "")
    packages = {"pigeons": pigeons, "lofts": lofts}
    return ConnectorShelf(tmp_path / "connectors", tmp_path, "4.3.0", packages)


def test_a_vertex_that_lacks_a_package_is_a_fault(shelf: ConnectorShelf) -> None:
    [fault] = asyncio.run(connector_checks.faults_of_graph(shelf, a_graph_with_pigeons()))

    assert (fault.vertex, fault.field) == ("out", "connector")
    assert f"headgate connectors install pigeons --data-dir {shelf.data_dir}" in fault.message


def test_a_graph_that_needs_nothing_has_no_fault(shelf: ConnectorShelf) -> None:
    graph = graph_document.parse(a_document())

    assert not required_packages(graph)
    assert asyncio.run(connector_checks.faults_of_graph(shelf, graph)) == []


def test_a_warm_runner_is_for_jobs_that_need_no_other_packages(tmp_path: Path) -> None:
    class Alive:
        def poll(self) -> None:
            return None

    def reserved(*warm: str) -> RunnerId | None:
        launcher = LocalLauncher(
            tmp_path, tmp_path / "a.json", tmp_path, "here", warm_connectors=warm
        )
        launcher._warm = {RunnerId(mine): Alive()}  # type: ignore[dict-item]
        return launcher.reserve(["pigeons", "lofts"])

    mine = uuid4()
    assert reserved("lofts", "pigeons", "kafka") == mine
    assert reserved("pigeons") is None
    assert reserved() is None


def test_the_history_says_why_a_runner_is_cold() -> None:
    told = launch_description(a_graph_with_pigeons(), is_warm=False)

    assert told == (
        "cold: no warm runner with lofts, pigeons was available (headgate serve --connectors)"
    )
