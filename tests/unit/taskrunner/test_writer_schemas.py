"""Which schemas a source knows, attempt after attempt."""

from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.graph.connectors.schema_registry import ResolvedSchema, SchemaType
from taskrunner.core.failures import Cause
from taskrunner.core.kafka_failures import UNKNOWN_SCHEMA, explain, unknown_schema
from taskrunner.core.writer_schemas import WriterSchemas, from_json

SUBMITTED = ResolvedSchema(3, 2, SchemaType.AVRO, "three", ((1, "one"),))
IDS = st.integers(0, 5)


def test_a_job_begins_with_the_schemas_of_its_graph() -> None:
    found = WriterSchemas().with_submitted(SUBMITTED)

    assert found.known == {1: "one", 3: "three"}
    assert found.ids == {1, 3}


def test_an_id_that_was_met_is_asked_for_once() -> None:
    met = WriterSchemas().with_submitted(SUBMITTED).met(7).met(8).met(1)
    assert met.noted == {7, 8}
    assert met.ids == {1, 3}

    asked = met.asked({7: "seven"}.get)
    assert asked.known == {1: "one", 3: "three", 7: "seven"}
    assert asked.absent == {8}
    assert asked.noted == frozenset()
    assert asked.met(8) == asked  # such records follow on_error now


def test_what_was_absent_is_asked_for_again() -> None:
    absent = WriterSchemas(absent=frozenset([8]))

    assert absent.asked({8: "eight"}.get).known == {8: "eight"}
    assert absent.with_submitted(ResolvedSchema(8, 1, SchemaType.AVRO, "8")).absent == frozenset()


@given(st.lists(IDS), st.dictionaries(IDS, st.text(max_size=3)), st.lists(IDS))
def test_every_id_is_in_one_state_and_survives_a_file(
    first: list[int], registry: dict[int, str], second: list[int]
) -> None:
    schemas = WriterSchemas()
    for number in first:
        schemas = schemas.met(number)
    schemas = schemas.asked(registry.get)
    for number in second:
        schemas = schemas.met(number)

    assert not schemas.noted & schemas.ids
    assert not schemas.absent & set(schemas.known)
    assert schemas.noted | schemas.ids == set(first) | set(second)
    assert from_json(schemas.to_json()) == schemas


def test_a_record_of_an_unknown_schema_restarts_the_job() -> None:
    causes = [Cause("SparkRuntimeException", f"[USER] {UNKNOWN_SCHEMA} bids orders 3 17 42")]

    met, explained = unknown_schema(causes), explain(causes)
    assert met is not None
    assert (met.vertex, met.schema) == ("bids", 42)
    assert explained is not None
    assert explained.is_restartable
    assert "offset 17 of partition 3 of topic orders" in explained.message
    assert "schema 42" in explained.message
    assert unknown_schema([Cause("X", "else")]) is None


def test_a_registry_that_does_not_answer_is_a_reason_to_restart() -> None:
    found = explain([Cause("RegistryRefused", "the registry http://r cannot be reached")])

    assert found is not None
    assert found.is_restartable
