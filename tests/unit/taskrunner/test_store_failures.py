"""Failures of stores of keys and values: their names survive the way from a task to the job."""

import pytest

from jobmanager.core.life.failure import FailureKind
from taskrunner.core import store_failures
from taskrunner.core.failures import Cause, classify
from taskrunner.core.store_failures import StoreFailure, StoreRefused, raised


@pytest.mark.parametrize("failure", StoreFailure.__subclasses__(), ids=lambda one: one.__name__)
def test_every_failure_keeps_its_class_and_is_explained(failure: type[StoreFailure]) -> None:
    again = raised(failure.__name__, "what to do")

    assert type(again) is failure
    causes = [Cause("StreamingQueryException", "stopped"), Cause(failure.__name__, str(again))]
    explained = classify(causes, "stack", "out", [store_failures.explain])
    assert explained.message == "what to do"


def test_a_failure_without_a_class_of_its_own_is_still_one() -> None:
    assert type(raised("Whatever", "x")) is StoreRefused


@pytest.mark.parametrize(
    ("name", "kind", "is_restartable"),
    [
        ("StoreUnreachable", FailureKind.INFRASTRUCTURE, True),
        ("StoreFull", FailureKind.INFRASTRUCTURE, True),
        ("StoreUnfit", FailureKind.INVALID_JOB, False),
        ("RowsWithoutKey", FailureKind.DATA, True),
    ],
)
def test_the_kind_tells_whether_a_restart_can_help(
    name: str, kind: FailureKind, is_restartable: bool
) -> None:
    found = classify([Cause(name, "x")], "", None, [store_failures.explain])

    assert (found.kind, found.is_restartable) == (kind, is_restartable)


def test_other_failures_are_left_to_others() -> None:
    assert store_failures.explain([Cause("OutputLost", "x")]) is None
