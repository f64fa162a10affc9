"""Which versions work together, and the form in which a message is written for each."""

import json
from uuid import UUID

import pytest

from jobmanager.core.json_text import storable
from jobmanager.core.progress import RegionProgress
from jobmanager.protocol import versions
from jobmanager.protocol.messages import (
    PROTOCOL_VERSION,
    BarrierReply,
    Directive,
    Directives,
    Exit,
    Heartbeat,
    Message,
    RunnerHello,
    UnknownDirective,
)


class SavepointTarget(Message):
    """As the protocol's, with a field that version 1 does not have."""

    id: UUID
    directory: str
    owner: str


class Stop(Message):
    """As the protocol's, with a field that version 1 does not have."""

    checkpoint: int
    drain: bool
    savepoint: SavepointTarget
    urgency: int


def test_one_version_apart_works_and_two_do_not() -> None:
    found = [one for one in range(-3, PROTOCOL_VERSION + 4) if versions.works_with(one)]

    assert found == [one for one in range(PROTOCOL_VERSION - 1, PROTOCOL_VERSION + 2) if one >= 1]


@pytest.mark.parametrize(
    ("header", "version"), [(None, 1), ("2", 2), ("17", 17), ("", 1), ("two", 1), ("²", 1)]
)
def test_a_program_that_names_no_version_speaks_version_1(header: str | None, version: int) -> None:
    assert versions.version_in(header) == version


def test_a_runner_of_version_1_gets_no_field_that_it_does_not_know() -> None:
    target = SavepointTarget(id=UUID(int=1), directory="file:/s", owner="me")
    stop = Stop(checkpoint=4, drain=True, savepoint=target, urgency=3)

    written = [json.loads(versions.written_for(version, stop)) for version in (1, 2)]

    kept = {"id": str(UUID(int=1)), "directory": "file:/s"}
    assert written[0] == {"checkpoint": 4, "drain": True, "savepoint": kept}
    assert written[1] == {**written[0], "savepoint": {**kept, "owner": "me"}, "urgency": 3}


def test_a_runner_of_version_1_gets_no_directive_that_it_does_not_know() -> None:
    known = Directive(id=1, job=None, attempt=1, body=Exit(reason="over"))
    newer = Directive(id=2, job=None, attempt=1, body=UnknownDirective(kind="pause", fault=""))

    written = versions.written_for(1, Directives(directives=[newer, known]))

    assert [one["id"] for one in json.loads(written)["directives"]] == [1]


def test_what_version_1_knows_is_written_for_both_alike() -> None:
    progress = RegionProgress(region="out", batch=3, is_active=True, phases_ms={"addBatch": 4})
    for message in (
        Heartbeat(job=UUID(int=1), attempt=2, regions=[progress]),
        BarrierReply(outcome="recorded"),
    ):
        written = [json.loads(versions.written_for(version, message)) for version in (1, 2)]
        known = message.model_dump(mode="json", exclude={"data_moved", "threads"})
        for newer in ("data_moved", "threads"):
            assert written[1].pop(newer, None) is None  # version 1 does not know it
        for region in (*written[1].get("regions", ()), *known.get("regions", ())):
            assert region.pop("subtasks") == []  # nor this
            assert region.pop("uncheckpointed_rows") is None
            assert region.pop("uncheckpointed_busy_ms") is None
            assert region.pop("has_checkpoint_of_attempt") is False
        assert written[0] == written[1] == known


def test_a_hello_names_the_version_that_both_speak() -> None:
    hello = RunnerHello(protocol=PROTOCOL_VERSION, host="h", pid=1, spark_version="4.3.0")

    said = [json.loads(versions.written_for(one, hello))["protocol"] for one in (1, 2, 3)]

    assert said == [1, 2, 2]


def test_a_text_that_is_no_unicode_is_written_too() -> None:
    """As in a message of user's code about a file whose name cannot be decoded."""
    hello = RunnerHello(protocol=2, host="caf\udce9", pid=1, spark_version="4.3.0")

    written = storable(versions.written_for(PROTOCOL_VERSION, hello))

    assert json.loads(written)["host"] == "caf\ufffd"
