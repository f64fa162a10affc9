"""Messages are strict when they are made, and tolerant of what is newer when they are received."""

import json
from typing import Any
from uuid import UUID

import pytest
from pydantic import ValidationError

from jobmanager.core.progress import AccumulatorValue
from jobmanager.protocol.messages import (
    AttemptReport,
    AttemptRunning,
    BarrierDecline,
    BarrierReply,
    Cancel,
    Directives,
    Exit,
    Heartbeat,
    UnknownDirective,
)
from jobmanager.protocol.progress_json import progress_from_json, restored_from_json

JOB = UUID(int=7)
REGION: dict[str, Any] = {"region": "out", "batch": 3, "is_active": True}
RESTORED: dict[str, Any] = {"region": "out", "batch": 3, "source": 1, "why": "newest"}


def directives(*bodies: dict[str, Any]) -> Directives:
    """The directives of a newer JobManager, which says more than this program knows."""
    said = [
        {"id": number, "job": str(JOB), "attempt": 1, "body": body, "priority": "high"}
        for number, body in enumerate(bodies, 1)
    ]
    return Directives.received(json.dumps({"directives": said, "more_to_come": True}))


def report(body: dict[str, Any]) -> AttemptReport:
    said = {"job": str(JOB), "attempt": 1, "at": "2026-11-18T00:00:00Z", "body": body, "newer": 1}
    return AttemptReport.received_value(said)


def test_unknown_fields_are_ignored_at_any_depth() -> None:
    said = {
        "job": str(JOB),
        "attempt": 1,
        "mood": "good",
        "memory": {"resident_bytes": 5, "swap_bytes": 7},
        "regions": [{**REGION, "colour": "red", "sources": [{"vertex": "in", "lag_ms": 4}]}],
    }

    heard = Heartbeat.received(json.dumps(said))

    assert heard.memory is not None
    assert heard.memory.resident_bytes == 5
    assert [one.region for one in heard.regions] == ["out"]
    assert [one.vertex for one in heard.regions[0].sources] == ["in"]


def test_a_message_with_an_unknown_field_cannot_be_made() -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        Cancel(grace_ms=5, grace="5 ms")  # type: ignore[call-arg]


def test_a_directive_of_an_unknown_kind_does_not_hide_the_others() -> None:
    found = directives({"kind": "pause", "until": "noon"}, {"kind": "exit", "reason": "r", "x": 1})

    first, second = found.directives
    assert isinstance(first.body, UnknownDirective)
    assert (first.id, first.body.kind) == (1, "pause")
    assert second.body == Exit(reason="r")


def test_a_directive_with_an_unreadable_field_is_skipped_with_its_fault() -> None:
    (found,) = directives({"kind": "cancel", "grace_ms": "at dawn"}).directives

    assert isinstance(found.body, UnknownDirective)
    assert found.body.kind == "cancel"
    assert "grace_ms" in found.body.fault


def test_a_missing_field_is_still_a_fault() -> None:
    with pytest.raises(ValidationError, match="superseded"):
        AttemptReport.received_value({"superseded": True})
    with pytest.raises(ValidationError, match="outcome"):
        BarrierReply.received(b"{}")


def test_an_unknown_kind_of_report_is_refused_with_its_name() -> None:
    with pytest.raises(ValidationError, match="reports of the kind 'paused' are not known"):
        report({"event": "paused", "until": "noon"})


def test_an_unknown_kind_of_failure_is_taken_for_infrastructure() -> None:
    failure = {"kind": "disk_full", "is_restartable": False, "message": "m", "stack": "s"}

    found = report({"event": "failed", "failure": failure}).body

    assert found.event == "failed"
    assert (found.failure.kind, found.failure.is_restartable) == ("infrastructure", False)


def test_a_reason_can_be_unknown_only_when_it_is_received() -> None:
    said = {"job": JOB, "attempt": 1, "checkpoint": 2, "region": None, "detail": "d"}

    assert BarrierDecline.received_value({**said, "reason": "moon"}).reason == "internal"
    with pytest.raises(ValidationError, match="reason"):
        BarrierDecline.model_validate({**said, "reason": "moon"})


def test_an_unknown_outcome_of_acks_cannot_be_read() -> None:
    """The client takes that for a lost answer: `CheckpointCompleted` may follow."""
    with pytest.raises(ValidationError):
        BarrierReply.received(b'{"outcome": "half"}')


def test_values_of_an_unknown_kind_are_left_out_of_progress() -> None:
    sums = {"seen": {"merge": "sum", "value": 3}, "usual": {"merge": "median", "value": 2}}
    said = [{**REGION, "accumulators": {"in": sums}, "colour": "red"}]

    (stored,) = progress_from_json(said)
    (heard,) = Heartbeat.received_value({"job": None, "attempt": None, "regions": said}).regions

    assert stored == heard
    assert heard.accumulators == {"in": {"seen": AccumulatorValue("sum", 3)}}


def test_a_region_restored_from_something_unknown_is_left_out() -> None:
    said = [{**RESTORED, "origin": "checkpoint"}, {**RESTORED, "origin": "backup"}]

    body = report({"event": "running", "restored": said}).body

    assert isinstance(body, AttemptRunning)
    assert [one.origin for one in body.restored] == ["checkpoint"]
    assert restored_from_json(said) == body.restored
