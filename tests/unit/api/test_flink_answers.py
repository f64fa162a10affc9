"""How Flink's metrics are answered, and how failures are written for Java."""

import math
import struct
from typing import Any

import pytest

from jobmanager.api.flink.failure_causes import failure_cause, serialized_throwable
from jobmanager.api.flink.metric_answers import aggregated, answer, skew
from jobmanager.api.flink.metrics import chosen_of
from jobmanager.core.errors import MalformedRequest


def test_names_are_listed_and_values_are_texts() -> None:
    metrics: dict[str, Any] = {
        "numRecordsIn": 3,
        "busyTimeMsPerSecond": math.nan,
        "path": "file:/a",
    }

    assert answer(metrics, "") == [{"id": name} for name in metrics]
    assert answer(metrics, "path,busyTimeMsPerSecond,unknown,path") == [
        {"id": "path", "value": "file:/a"},
        {"id": "busyTimeMsPerSecond", "value": "NaN"},
    ]


def test_aggregates_are_of_those_that_have_the_metric() -> None:
    components: list[dict[str, Any]] = [{"x": 1, "path": "a"}, {"x": 3}, {}]

    assert aggregated(components, "x", "MIN,max,avg,sum") == [
        {"id": "x", "min": 1.0, "max": 3.0, "avg": 2.0, "sum": 4.0}
    ]
    assert aggregated(components, "x,unknown", "") == []
    assert aggregated(components, "path,x", "sum") == [{"id": "x", "sum": 4.0}]
    assert aggregated([{"x": math.nan}], "x", "max") == [{"id": "x", "max": "NaN"}]
    with pytest.raises(MalformedRequest, match="median"):
        aggregated(components, "x", "median")


def test_skew_is_the_deviation_in_per_cent() -> None:
    assert skew([5, 5]) == 0
    assert skew([0, 0]) == 0
    assert skew([1, 3]) == 50
    assert skew([0, 0, 0, 100]) == 100


def test_subtasks_are_named_by_numbers_and_ranges() -> None:
    assert chosen_of("", 3) == [0, 1, 2]
    assert chosen_of("0,2-9", 4) == [0, 2, 3]
    assert chosen_of("3", 2) == []
    with pytest.raises(MalformedRequest):
        chosen_of("0-x", 4)


class JavaReader:
    """Reads what `failure_causes` writes, as the specification of Java's object streams says."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0

    def take(self, count: int) -> bytes:
        taken = self.content[self.at : self.at + count]
        assert len(taken) == count
        self.at += count
        return taken

    def number(self, form: str) -> int:
        return int(struct.unpack(form, self.take(struct.calcsize(form)))[0])

    def utf(self, length: str = ">H") -> str:
        content = self.take(self.number(length)).replace(b"\xc0\x80", b"\0")
        return (
            content.decode("utf-8", "surrogatepass")
            .encode("utf-16", "surrogatepass")
            .decode("utf-16")
        )

    def value(self) -> Any:
        match self.take(1):
            case b"p":
                return None
            case b"t":
                return self.utf()
            case b"|":
                return self.utf(">Q")
            case other:
                raise AssertionError(other)

    def classes(self) -> list[tuple[str, int, int, list[tuple[str, str]]]]:
        """The class and its parents."""
        found = []
        while (mark := self.take(1)) == b"r":
            name, version, flags = self.utf(), self.number(">q"), self.number(">B")
            fields = []
            for _ in range(self.number(">H")):
                assert self.take(1) in (b"L", b"[")
                fields.append((self.utf(), self.value()))
            assert self.take(1) == b"x"
            found.append((name, version, flags, fields))
        assert mark == b"p"
        return found


@pytest.mark.parametrize(
    "message", ["boom", "", "NUL \0 \N{SNOWMAN} \N{GRINNING FACE}", "x" * 70_000]
)
def test_a_failure_is_an_object_of_flinks_class(message: str) -> None:
    java = JavaReader(serialized_throwable("org.example.Broken", message, "at line 1"))

    assert java.take(5) == b"\xac\xed\x00\x05s"
    classes = java.classes()
    assert [one[0] for one in classes] == [
        "org.apache.flink.util.SerializedThrowable",
        "java.lang.Exception",
        "java.lang.Throwable",
    ]
    values: dict[str, Any] = {}
    for name, _, flags, fields in reversed(classes):
        values |= {field: java.value() for field, _ in fields}
        if flags & 1:  # the class writes its objects itself, and says where that ends
            assert java.take(1) == b"x", name
    assert java.at == len(java.content)
    assert values == {
        "cause": None,
        "detailMessage": message,
        "stackTrace": None,
        "suppressedExceptions": None,
        "fullStringifiedStackTrace": "at line 1",
        "originalErrorClassName": "org.example.Broken",
        "serializedException": None,
    }


def test_a_failure_without_a_stack_shows_its_message() -> None:
    assert failure_cause("a.B", "no room")["stack-trace"] == "a.B: no room"


def test_a_metric_that_is_known_of_all_together_has_a_sum_and_an_average() -> None:
    each = [{"busy": math.nan}, {"busy": math.nan}]
    whole = {"busy": 300.0, "rows": 10}

    assert aggregated(each, "busy,rows", "sum,avg,max", whole) == [
        {"id": "busy", "avg": 150.0, "sum": 300.0},
        {"id": "rows", "avg": 5.0, "sum": 10.0},
    ]
    assert aggregated(each, "rows", "max", whole) == []
    assert aggregated([{"rows": 1}, {"rows": 2}], "rows", "max", whole) == [
        {"id": "rows", "max": 2.0}
    ]
    assert aggregated(each, "busy", "max") == [{"id": "busy", "max": "NaN"}]
