"""A source asks its registry for schemas that its records have, and keeps the answers."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from jobmanager.core.graph.connectors.schema_registry import (
    RegistryReference,
    ResolvedSchema,
    SchemaType,
)
from jobmanager.files.schema_registry import RegistryRefused
from taskrunner.core.failures import Cause
from taskrunner.core.kafka_failures import UNKNOWN_SCHEMA
from taskrunner.spark.connectors import met_schemas
from tests.support.answering_server import Answers, an_answering_server

SUBMITTED = ResolvedSchema(3, 2, SchemaType.AVRO, '"three"', ((1, '"one"'),))


@pytest.fixture
def answers() -> Iterator[Answers]:
    with an_answering_server() as given:
        yield given


@pytest.fixture
def registry(answers: Answers) -> RegistryReference:
    return RegistryReference(answers.url, "bids-value", resolved=SUBMITTED)


def met(number: int) -> None:
    """An attempt fails at a record with this schema."""
    message = f"{UNKNOWN_SCHEMA} bids orders 0 17 {number}"
    assert met_schemas.explain([Cause("SparkRuntimeException", message)]) is not None


def test_a_restart_asks_nothing_unless_a_record_needs_it(
    answers: Answers, registry: RegistryReference, tmp_path: Path
) -> None:
    file = tmp_path / "job" / "bids.json"
    for _ in range(2):
        assert met_schemas.schemas_of("bids", registry, file).ids == {1, 3}

    assert answers.asked == []
    assert not file.exists()


def test_a_schema_that_was_met_is_asked_for_once(
    answers: Answers, registry: RegistryReference, tmp_path: Path
) -> None:
    file = tmp_path / "job" / "bids.json"
    answers.of["GET /schemas/ids/7"] = (200, {"schema": '"seven"'})
    met_schemas.schemas_of("bids", registry, file)
    met(7)
    assert met_schemas.schemas_of("bids", registry, file).known[7] == '"seven"'

    # when the registry is gone, then the job starts with what it knows
    gone = replace(registry, url="http://127.0.0.1:1")
    assert met_schemas.schemas_of("bids", gone, file).known[7] == '"seven"'
    met(8)
    with pytest.raises(RegistryRefused, match="cannot be reached"):
        met_schemas.schemas_of("bids", gone, file)


@pytest.mark.parametrize(
    "answer", [(404, {"message": "no"}), (200, {"schema": "{}", "schemaType": "JSON"})]
)
def test_a_schema_that_is_not_there_or_no_avro_is_absent(
    answers: Answers, registry: RegistryReference, tmp_path: Path, answer: tuple[int, object]
) -> None:
    file = tmp_path / "bids.json"
    answers.of["GET /schemas/ids/7"] = answer
    met_schemas.schemas_of("bids", registry, file)
    met(7)

    found = met_schemas.schemas_of("bids", registry, file)
    assert found.absent == {7}
    assert 7 in found.ids  # its records follow on_error
    gone = replace(registry, url="http://127.0.0.1:1")
    assert met_schemas.schemas_of("bids", gone, file).absent == {7}
