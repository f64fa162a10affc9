"""A graph that needs a connector package: refused without it, run with its jars."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self
from uuid import uuid4

import pytest

from jobmanager.api.context import ApiContext
from jobmanager.core.connector_packages import ConnectorPackage, JarChoice, parse_coordinates
from jobmanager.core.graph.connectors import registry
from jobmanager.core.graph.connectors.sink_connector import SinkConnector
from jobmanager.core.graph.document_fields import Fields
from jobmanager.core.ids import RunnerId
from jobmanager.files.connector_shelf import ConnectorShelf
from jobmanager.files.jar_sources import JarDirectory
from jobmanager.services.directive_polls import DirectivePolls
from tests.support.builders import a_document_with
from tests.support.cluster import Cluster

pytestmark = pytest.mark.anyio
JAR = parse_coordinates("org.example:carrier:1")


@dataclass(frozen=True, slots=True)
class CarrierSink(SinkConnector):
    name: ClassVar[str] = "carrier"

    @classmethod
    def read(cls, fields: Fields) -> Self:
        return cls()

    @property
    def requires(self) -> tuple[str, ...]:
        return ("carrier",)


@pytest.fixture
def shelf(tmp_path: Path) -> ConnectorShelf:
    packages = {"carrier": ConnectorPackage("carrier", "by air", (JAR,))}
    return ConnectorShelf(tmp_path / "connectors", tmp_path, "4.3.0", packages)


@pytest.fixture
def told(
    cluster: Cluster, shelf: ConnectorShelf, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    """A server whose connectors are on the shelf, and that has a directory of secrets."""
    monkeypatch.setitem(registry.SINKS, "carrier", CarrierSink)
    before: ApiContext = cluster.app.state.context
    settings = replace(before.run_settings, connectors=shelf, secrets_dir="file:///run/secrets")
    cluster.app.state.context = replace(
        before,
        run_settings=settings,
        directive_polls=DirectivePolls(before.units, before.wakeups, settings, cluster.clock),
    )
    yield cluster
    cluster.app.state.context = before


def a_graph(**options: Any) -> dict[str, Any]:
    document = a_document_with("out", connector="carrier", options=options)
    for field in ("format", "path"):
        document["vertices"][-1].pop(field, None)
    return document


def install(shelf: ConnectorShelf, tmp_path: Path) -> None:
    (tmp_path / JAR.file_name).write_bytes(b"jar")
    shelf.install(
        "carrier", [JarChoice((JAR,))], JarDirectory(tmp_path), print, lambda jar: lambda *_: None
    )


async def test_a_graph_whose_package_is_missing_is_refused_with_the_command(
    told: Cluster, shelf: ConnectorShelf
) -> None:
    answer = await told.http.post("/v1/jobs", json=a_graph())

    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    [fault] = answer.json()["faults"]
    assert (fault["vertex"], fault["field"]) == ("out", "connector")
    command = f"run headgate connectors install carrier --data-dir {shelf.data_dir}"
    assert command in fault["message"]


async def test_the_runner_is_told_the_jars_with_their_checksums_and_no_secret(
    told: Cluster, shelf: ConnectorShelf, tmp_path: Path
) -> None:
    install(shelf, tmp_path)
    job = await told.submit(a_graph(password="${secret:pw}"))

    [run] = await (await told.runner(job)).directives()

    [jar] = shelf.jars("carrier") or ()
    assert run["body"]["jars"] == [{"path": str(jar.path), "sha256": jar.sha256}]
    assert run["body"]["secrets_dir"] == "file:///run/secrets"
    assert run["body"]["graph"]["vertices"][-1]["options"] == {"password": "${secret:pw}"}


@pytest.mark.parametrize("has_jars", [True, False])
async def test_a_warm_runner_is_taken_only_if_it_has_the_jars(
    told: Cluster, shelf: ConnectorShelf, tmp_path: Path, has_jars: bool
) -> None:
    install(shelf, tmp_path)
    warm = RunnerId(uuid4())
    told.bench.warm.append(warm)
    told.bench.warm_connectors = frozenset(["carrier", "kafka"] if has_jars else ["kafka"])

    job = await told.submit(a_graph())
    runner = await told.runner(job)

    assert (runner.id == warm) == has_jars
