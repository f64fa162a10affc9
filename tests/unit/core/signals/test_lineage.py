"""Data sets by OpenLineage's rules of naming, and events that OpenLineage's own classes take."""

import json
from typing import Any
from uuid import UUID

import pytest
from openlineage.client.event_v2 import (
    InputDataset,
    Job,
    OutputDataset,
    Run,
    RunEvent,
    RunState,
)
from openlineage.client.facet_v2 import (
    error_message_run,
    input_statistics_input_dataset,
    job_type_job,
    output_statistics_output_dataset,
    processing_engine_run,
    schema_dataset,
)
from openlineage.client.serde import Serde

from jobmanager.core.graph import graph_document
from jobmanager.core.ids import JobId
from jobmanager.core.progress import RegionProgress
from jobmanager.core.signals.lineage import (
    LineageEventType,
    LineageProducer,
    LineageRun,
    RowCounts,
    key_of_entry,
    key_of_report,
    rows_of,
)
from jobmanager.core.signals.lineage_datasets import inputs_of, names_of_table, outputs_of
from tests.support.builders import NOW, a_document, a_document_with

JOB = JobId(UUID(int=3))
PRODUCER = LineageProducer("0.1.0", "4.3.0", "prod")
_FACETS: dict[str, Any] = {
    "processing_engine": processing_engine_run.ProcessingEngineRunFacet,
    "errorMessage": error_message_run.ErrorMessageRunFacet,
    "jobType": job_type_job.JobTypeJobFacet,
    "schema": schema_dataset.SchemaDatasetFacet,
    "inputStatistics": input_statistics_input_dataset.InputStatisticsInputDatasetFacet,
    "outputStatistics": output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet,
}


def names(found: Any) -> list[tuple[str, str]]:
    return [(one.namespace, one.name) for one in found]


def a_graph(source: dict[str, Any] | None = None, sink: dict[str, Any] | None = None) -> Any:
    """A job from a source to a sink, each with these fields."""
    read = {"connector": "generator", "rows_per_second": 1, "columns": {"a": "id"}}
    write = {"connector": "blackhole"}
    vertices = [
        {"id": "in", "op": "source", **(source or read)},
        {"id": "out", "op": "sink", "inputs": ["in"], **(sink or write)},
    ]
    return graph_document.parse({"name": "x", "vertices": vertices})


@pytest.mark.parametrize(
    ("path", "namespace", "name"),
    [
        ("in", "file", "/data/in"),
        ("/srv/in/../x", "file", "/srv/x"),
        ("file:///srv/in", "file", "/srv/in"),
        ("s3a://bucket/a/b", "s3://bucket", "a/b"),
        ("hdfs://nn:8020/a/b", "hdfs://nn:8020", "/a/b"),
    ],
)
def test_names_of_files(path: str, namespace: str, name: str) -> None:
    source = {"connector": "files", "format": "json", "path": path, "schema": "a INT"}
    sink = {"connector": "files", "format": "json", "path": path}

    assert names(inputs_of(a_graph(source), "/data")) == [(namespace, name)]
    assert names(outputs_of(a_graph(sink=sink), "/data")) == [(namespace, name)]


@pytest.mark.parametrize(
    ("path", "namespace", "name"),
    [("s3://bucket", "s3://bucket", "/"), ("gs://bucket/a", "gs://bucket", "a")],
)
def test_names_of_tables_in_object_stores(path: str, namespace: str, name: str) -> None:
    sink = {"connector": "delta", "path": path}

    assert names(outputs_of(a_graph(sink=sink), "/data")) == [(namespace, name)]


def test_names_of_topics() -> None:
    source = {
        "connector": "kafka",
        "servers": ["broker-1:9093", "broker-2:9093"],
        "topics": ["bids", "asks"],
        "format": "json",
        "schema": "a INT",
    }
    sink = {"connector": "kafka", "servers": ["broker-1:9093"], "topic": "out", "format": "json"}

    found = a_graph(source, sink)

    assert names(inputs_of(found, "/")) == [
        ("kafka://broker-1:9093", "bids"),
        ("kafka://broker-1:9093", "asks"),
    ]
    assert names(outputs_of(found, "/")) == [("kafka://broker-1:9093", "out")]


@pytest.mark.parametrize(
    ("url", "table", "namespace", "name"),
    [
        ("jdbc:postgresql://db/shop", "orders", "postgres://db:5432", "shop.public.orders"),
        ("jdbc:postgresql://db:6000/shop?x=1", "eu.orders", "postgres://db:6000", "shop.eu.orders"),
        ("jdbc:mysql://db/shop", "orders", "mysql://db:3306", "shop.orders"),
        (
            "jdbc:sqlserver://db;databaseName=shop;encrypt=true",
            "orders",
            "mssql://db:1433",
            "shop.dbo.orders",
        ),
        ("jdbc:h2:mem:test", "orders", "jdbc:h2", "orders"),
    ],
)
def test_names_of_tables(url: str, table: str, namespace: str, name: str) -> None:
    assert list(names_of_table(url, table)) == [(namespace, name)]


def test_a_jdbc_sink_is_a_table() -> None:
    url = "jdbc:postgresql://db/shop"
    sink = {"connector": "jdbc", "url": url, "user": "u", "password": "${secret:p}", "table": "t"}

    assert names(outputs_of(a_graph(sink=sink), "/")) == [("postgres://db:5432", "shop.public.t")]


def test_what_is_no_data_set_is_not_named() -> None:
    assert inputs_of(a_graph(), "/") == outputs_of(a_graph(), "/") == []


def test_columns_are_those_that_the_graph_tells() -> None:
    schema = "a INT NOT NULL COMMENT 'x, y', `b c` MAP<STRING, ARRAY<INT>>, d: DECIMAL(10, 2)"
    source = {"connector": "files", "format": "json", "path": "in", "schema": schema}
    sink = {"connector": "files", "format": "json", "path": "out"}

    graph = a_graph(source, sink)

    (read,), (written,) = inputs_of(graph, "/"), outputs_of(graph, "/")
    assert [(one.name, one.type) for one in read.columns] == [
        ("a", "int"),
        ("b c", "map<string, array<int>>"),
        ("d", "decimal(10, 2)"),
    ]
    assert [one.name for one in written.columns] == ["a", "b c", "d"]


def event_of(kind: LineageEventType, **more: Any) -> dict[str, Any]:
    document = a_document_with("bids", watermark={"column": "ts", "delay": "5s"})
    run = LineageRun(JOB, "revenue", graph_document.parse(document), "/data")
    found: dict[str, Any] = json.loads(PRODUCER.event(kind, run, NOW, **more))
    return found


def as_openlineage(event: dict[str, Any]) -> dict[str, Any]:
    """The event as OpenLineage's own classes write it. They refuse what they do not know."""

    def facets(given: dict[str, Any]) -> dict[str, Any]:
        return {name: facet(name, values) for name, values in given.items()}

    def facet(name: str, values: dict[str, Any]) -> Any:
        own = {key: value for key, value in values.items() if not key.startswith("_")}
        if name == "schema":
            own["fields"] = [
                schema_dataset.SchemaDatasetFacetFields(**one) for one in own["fields"]
            ]
        return _FACETS[name](producer=values["_producer"], **own)

    def dataset(cls: Any, one: dict[str, Any], own: str) -> Any:
        more = {own: facets(one[own])} if own in one else {}
        return cls(one["namespace"], one["name"], facets=facets(one["facets"]), **more)

    made = RunEvent(
        eventType=RunState(event["eventType"]),
        eventTime=event["eventTime"],
        producer=event["producer"],
        run=Run(event["run"]["runId"], facets=facets(event["run"]["facets"])),
        job=Job(
            event["job"]["namespace"], event["job"]["name"], facets=facets(event["job"]["facets"])
        ),
        inputs=[dataset(InputDataset, one, "inputFacets") for one in event["inputs"]],
        outputs=[dataset(OutputDataset, one, "outputFacets") for one in event["outputs"]],
    )
    found: dict[str, Any] = json.loads(Serde.to_json(made))
    return found


def without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        pruned = {key: without_empty(one) for key, one in value.items()}
        return {key: one for key, one in pruned.items() if one not in (None, {}, [])}
    return [without_empty(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("kind", LineageEventType)
def test_events_are_what_openlineages_own_classes_write(kind: LineageEventType) -> None:
    rows = RowCounts({"out": 5}, {"bids": 9})
    error = "boom" if kind is LineageEventType.FAIL else None

    event = event_of(kind, rows=rows, error=error)

    assert without_empty(as_openlineage(event)) == without_empty(event)


def test_an_event_says_which_run_of_which_job_and_what_it_wrote() -> None:
    event = event_of(LineageEventType.RUNNING, rows=RowCounts({"out": 5}, {}))

    assert event["run"]["runId"] == str(JOB)
    assert (event["job"]["namespace"], event["job"]["name"]) == ("prod", "revenue")
    assert event["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    (output,) = event["outputs"]
    assert (output["namespace"], output["name"]) == ("file", "/data/out")
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 5
    columns = [one["name"] for one in output["facets"]["schema"]["fields"]]
    assert "revenue" in columns
    assert event["inputs"] == []  # a generator


def test_rows_are_those_of_the_regions() -> None:
    graph = graph_document.parse(a_document())
    region = RegionProgress(
        region="out", batch=1, is_active=True, input_rows=9, output_rows=5, offsets={"bids": 1}
    )

    assert rows_of(graph, [region]) == RowCounts({"out": 5}, {"bids": 9})


def test_an_event_has_the_same_id_whoever_sends_it() -> None:
    assert key_of_entry(1) == key_of_entry(1) != key_of_entry(2)
    assert key_of_report(JOB, 1) == key_of_report(JOB, 1) != key_of_report(JOB, 2)
