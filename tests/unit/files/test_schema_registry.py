"""What is asked of a schema registry, and what its answers mean."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from jobmanager.core.graph.connectors.schema_registry import SchemaType
from jobmanager.files.schema_registry import (
    RegistryRefused,
    SchemaMissing,
    SchemaRegistry,
    SchemaUnusable,
)
from tests.support.answering_server import Answers, an_answering_server

ONE = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "long"}]}'
TWO = '{"type": "record", "name": "R", "fields": [{"name": "b", "type": "long"}]}'
VERSIONS = "/subjects/bids-value/versions"
MISSING = (404, {"error_code": 40401, "message": "Subject 'bids-value' not found."})


def an_answer(version: int, number: int, schema: str, **more: Any) -> tuple[int, Any]:
    subject = "bids-value"
    return 200, {"subject": subject, "version": version, "id": number, "schema": schema, **more}


@pytest.fixture
def answers() -> Iterator[Answers]:
    with an_answering_server() as given:
        given.of = {
            f"GET {VERSIONS}": (200, [1, 2]),
            f"GET {VERSIONS}/1": an_answer(1, 7, ONE),
            f"GET {VERSIONS}/2": an_answer(2, 9, TWO),
            f"GET {VERSIONS}/latest": an_answer(2, 9, TWO),
            "GET /schemas/ids/7": (200, {"schema": ONE}),
        }
        yield given


def test_the_newest_version_comes_with_the_other_schemas_of_its_subject(answers: Answers) -> None:
    found = SchemaRegistry(answers.url).resolve("bids-value", None)

    assert (found.id, found.version, found.type) == (9, 2, SchemaType.AVRO)
    assert json.loads(found.schema) == json.loads(TWO)
    assert [(number, json.loads(text)) for number, text in found.others] == [(7, json.loads(ONE))]


def test_a_schema_by_its_id_is_a_version_of_its_subject(answers: Answers) -> None:
    found = SchemaRegistry(answers.url).resolve_id("bids-value", 7)

    assert (found.id, found.version) == (7, 1)
    assert [number for number, _ in found.others] == [9]


def test_a_login_is_sent_and_never_told(answers: Answers) -> None:
    answers.of[f"GET {VERSIONS}/1"] = (401, {"error_code": 401, "message": "Unauthorized"})
    with pytest.raises(RegistryRefused, match="does not accept the login") as refused:
        SchemaRegistry(answers.url, "me", "sw0rd").resolve("bids-value", 1)

    sent = base64.b64encode(b"me:sw0rd").decode()
    assert answers.headers[0]["Authorization"] == f"Basic {sent}"
    assert "sw0rd" not in str(refused.value)


def test_a_schema_is_registered_only_if_its_subject_lacks_it(answers: Answers) -> None:
    registry = SchemaRegistry(answers.url)
    answers.of["POST /subjects/bids-value"] = an_answer(1, 7, ONE)
    assert registry.register("bids-value", SchemaType.AVRO, ONE).id == 7
    assert not [asked for asked, _ in answers.asked if asked == f"POST {VERSIONS}"]

    answers.of["POST /subjects/bids-value"] = [MISSING, an_answer(2, 9, TWO)]
    answers.of[f"POST {VERSIONS}"] = (200, {"id": 9})
    assert registry.register("bids-value", SchemaType.JSON, TWO).version == 2
    sent = [body for asked, body in answers.asked if asked == f"POST {VERSIONS}"]
    assert sent == [{"schema": TWO, "schemaType": "JSON"}]


def test_a_schema_that_does_not_fit_its_subject_is_refused(answers: Answers) -> None:
    answers.of["POST /subjects/bids-value"] = MISSING
    answers.of[f"POST {VERSIONS}"] = (409, {"error_code": 409, "message": "incompatible: a"})

    with pytest.raises(RegistryRefused, match="incompatible: a"):
        SchemaRegistry(answers.url).register("bids-value", SchemaType.AVRO, ONE)


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (MISSING, SchemaMissing, "not found"),
        ((500, {"message": "out of order"}), RegistryRefused, "out of order"),
        ((200, "<html>"), RegistryRefused, "did not answer as a schema registry"),
        ((200, {"schema": ONE}), RegistryRefused, "without id"),
        ((0, None), RegistryRefused, "cannot be reached"),
        (an_answer(2, 9, "m", schemaType="PROTOBUF"), SchemaUnusable, "neither Avro nor JSON"),
        (an_answer(2, 9, ONE, references=[{"name": "x"}]), SchemaUnusable, "other schemas"),
    ],
)
def test_what_is_no_schema_is_told_with_its_reason(
    answers: Answers, answer: Any, kind: type[Exception], message: str
) -> None:
    answers.of[f"GET {VERSIONS}/latest"] = answer

    with pytest.raises(kind, match=message):
        SchemaRegistry(answers.url).resolve("bids-value", None)
