"""Kafka records whose schemas are in a real registry: written, read, and written by others."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from jobmanager.core.graph import graph_document
from jobmanager.core.snapshots.upgrade import differences
from jobmanager.services.directives import RunSettings
from jobmanager.services.schema_registries import resolve_schemas
from taskrunner.core import kafka_failures
from taskrunner.spark.connectors import met_schemas
from taskrunner.spark.run.causes import causes_of
from taskrunner.spark.run.region_query import QueryPhase
from tests.integration.spark.jobs import JobUnderTest
from tests.support import apicurio
from tests.support.connector_jars import installed_jars
from tests.support.kafka import Broker, a_broker

pytestmark = [
    pytest.mark.skipif(not installed_jars(), reason="the jars are missing: make jars"),
    pytest.mark.skipif(not apicurio.is_installed(), reason="make apicurio fetches the registry"),
    pytest.mark.long,
]
FIRST: dict[str, Any] = {
    "type": "record",
    "name": "Bid",
    "fields": [{"name": "n", "type": "long"}, {"name": "k", "type": "string"}],
}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
SECOND = {**FIRST, "fields": [*FIRST["fields"], NOTE]}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with a_broker() as started:
        yield started


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    with apicurio.a_registry() as url:
        yield url


def zigzag(number: int) -> bytes:
    """A number as Avro writes it."""
    left, found = number << 1, bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])


def text(value: str) -> bytes:
    return zigzag(len(value.encode())) + value.encode()


def a_record(schema: int, n: int, k: str, note: str | None = None, *, wide: bool) -> bytes:
    """A value as any other producer of the registry writes it."""
    tail = (b"\x00" if note is None else b"\x02" + text(note)) if wide else b""
    return b"\x00" + schema.to_bytes(4, "big") + zigzag(n) + text(k) + tail


def register(registry: str, subject: str, schema: Mapping[str, Any], kind: str = "AVRO") -> int:
    body = {"schema": json.dumps(schema), "schemaType": kind}
    answer = httpx.post(f"{registry}/subjects/{subject}/versions", json=body, timeout=30)
    answer.raise_for_status()
    return int(answer.json()["id"])


def resolved(*vertices: Mapping[str, Any]) -> Mapping[str, Any]:
    """The graph as the server stores it."""
    document = {"name": "registry", "max_parallelism": 12, "vertices": list(vertices)}
    settings = RunSettings("local", "file:///tmp", "/tmp")
    graph = graph_document.parse(document)
    return asyncio.run(resolve_schemas(document, graph, settings, may_register=True))


def source(broker: Broker, topic: str, registry: str, **fields: Any) -> dict[str, Any]:
    return {
        "id": "rows",
        "op": "source",
        "connector": "kafka",
        "servers": broker.servers,
        "topic": topic,
        "format": "avro",
        "registry": {"url": registry},
        **fields,
    }


def files_sink(after: str = "rows") -> dict[str, Any]:
    where = {"connector": "files", "format": "json", "path": "out"}
    return {"id": "out", "op": "sink", "inputs": [after], **where}


def rows_of(job: JobUnderTest, directory: Path) -> list[Any]:
    found = []
    for file in sorted(directory.glob("out/**/*.json")):
        if not any(part.startswith((".", "_")) for part in file.relative_to(directory).parts):
            found += [json.loads(line) for line in file.read_text().splitlines()]
    return sorted(found, key=lambda row: row["n"])


def poll(job: JobUnderTest) -> bool:
    assert job.running is not None
    for region in job.running.regions:
        region.poll()
    return True


def next_unknown_schema(job: JobUnderTest) -> int:
    """Waits until the attempt fails at a record of an unknown schema, and starts the next."""
    assert job.running is not None
    region = job.running.regions[0]
    job.wait(lambda: region.poll() is QueryPhase.FAILED or region.error is not None)
    assert region.error is not None
    causes = causes_of(region.error)
    explained, met = met_schemas.explain(causes), kafka_failures.unknown_schema(causes)
    assert explained is not None
    assert met is not None
    assert explained.is_restartable
    job.start()
    return met.schema


def test_records_of_all_schemas_of_a_subject_are_read_also_of_a_newer_one(
    job: JobUnderTest, broker: Broker, registry: str, tmp_path: Path
) -> None:
    # Given a job that was submitted when its subject had one version
    topic = broker.create("bids", 1)
    first = register(registry, "bids-value", FIRST)
    document = resolved(source(broker, topic, registry, on_error="skip"), files_sink())
    job.define(*document["vertices"])
    broker.send(topic, [a_record(first, 1, "a", wide=False), b"\x01poison"])
    job.start()
    job.wait(lambda: poll(job) and len(rows_of(job, tmp_path)) == 1)

    # When a record of a newer version arrives, then the attempt fails, and says why
    second = register(registry, "bids-value", SECOND)
    assert second != first
    broker.send(topic, [a_record(second, 2, "b", "new", wide=True)])
    broker.send(topic, [a_record(2**30, 3, "c", wide=False)])
    assert [next_unknown_schema(job), next_unknown_schema(job)] == [second, 2**30]

    # Then the next attempts read it as a record of the version that the job was submitted with
    broker.send(topic, [a_record(first, 4, "d", wide=False)])
    job.wait(lambda: poll(job) and len(rows_of(job, tmp_path)) == 3)
    job.stop_at_boundary()
    assert rows_of(job, tmp_path) == [
        {"n": 1, "k": "a"},
        {"n": 2, "k": "b"},
        {"n": 4, "k": "d"},
    ]

    # And an upgrade takes the newer version up, and says what changes
    newer = resolved(source(broker, topic, registry, on_error="skip"), files_sink())
    changed = {one.field: (one.before, one.after) for one in differences(document, newer)}
    assert changed["registry.resolved.version"] == (1, 2)
    assert changed["registry.resolved.schema.note"] == (None, ["null", "string"])


def test_a_sink_registers_its_schema_and_another_job_reads_its_records(
    job: JobUnderTest, broker: Broker, registry: str, tmp_path: Path
) -> None:
    # Given two topics whose sinks register their schemas
    avro, plain = broker.create("written", 1), broker.create("written-json", 1)
    rows: list[dict[str, Any]] = [{"n": 1, "k": "a"}, {"n": 2, "k": "b"}]
    table = {"id": "t", "op": "source", "connector": "table", "schema": "n BIGINT, k STRING"}
    register_it = {"url": registry, "register": True}
    to_kafka = {"op": "sink", "inputs": ["t"], "connector": "kafka", "servers": broker.servers}
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "k": {"type": "string"}}}
    first = {"topic": avro, "format": "avro", "schema": FIRST, "registry": register_it}
    other = {"topic": plain, "format": "json", "schema": schema, "registry": register_it}
    document = resolved(
        {**table, "rows": rows},
        {"id": "out", **to_kafka, **first},
        {"id": "other", **to_kafka, **other},
    )
    numbers = [one["registry"]["resolved"]["id"] for one in document["vertices"][1:]]

    # When a job writes to them, then the records are as any other consumer expects them
    writer = job.define(*document["vertices"], mode="batch").run()
    values = {one.value for one in broker.records(avro)}
    assert values == {a_record(numbers[0], row["n"], row["k"], wide=False) for row in rows}
    [any_json, _] = [one.value for one in broker.records(plain)]
    assert any_json is not None
    assert any_json[:5] == b"\x00" + numbers[1].to_bytes(4, "big")

    # And a job whose graph names only the subjects reads them
    for topic, kind in ((avro, "avro"), (plain, "json")):
        reader = writer.successor()
        read = resolved(source(broker, topic, registry, format=kind), files_sink())
        out = {**read["vertices"][1], "path": f"out/{kind}"}
        reader.define(read["vertices"][0], out, mode="batch").run()
    assert rows_of(job, tmp_path) == [row for row in rows for _ in range(2)]
