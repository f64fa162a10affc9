"""Which jobs may share a process, and which process a job goes to."""

from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.errors import InvalidJobGraph
from jobmanager.core.graph import graph_document
from jobmanager.core.runner_sharing import MOST_SERVED, SharedRoom, Sharing, faults, place
from tests.support.builders import a_document

HERE = Sharing(jobs=40, spark_master="local[2]")


def found_in(sharing: Sharing = HERE, **changes: Any) -> list[tuple[str | None, str]]:
    """Vertex and field of each fault. Every message says what to do."""
    document = {**a_document(), "execution": {"runner": "shared"}, **changes}
    found = faults(document, graph_document.parse(document), sharing)
    assert all("execution.runner: own" in one.message for one in found)
    return [(one.vertex, one.field) for one in found]


def with_vertex(**vertex: Any) -> list[dict[str, Any]]:
    source, *_ = a_document()["vertices"]
    made = {"id": "made", "inputs": [source["id"]], **vertex}
    return [source, made, {"id": "out", "op": "sink", "inputs": ["made"], "connector": "console"}]


def test_a_streaming_job_of_built_in_operators_may_share_a_process() -> None:
    assert found_in() == []
    assert found_in(spark={"spark.sql.ansi.enabled": "false"}) == []


def test_a_job_that_does_not_ask_is_not_looked_at() -> None:
    nowhere = Sharing(jobs=0, spark_master="yarn")
    alone = {"runner": "own"}

    assert found_in(nowhere, execution=alone, artifacts=["ab" * 32]) == []
    assert found_in(nowhere, execution={}) == []


def test_the_word_has_to_be_known() -> None:
    with pytest.raises(InvalidJobGraph, match="'both' is not one of own, shared"):
        found_in(execution={"runner": "both"})


def test_a_server_without_shared_processes_says_so() -> None:
    here = [(None, "execution.runner")]

    assert found_in(replace(HERE, jobs=0)) == here
    assert found_in(replace(HERE, spark_master="spark://host:7077")) == here


def test_what_belongs_to_the_process_cannot_be_a_jobs_own() -> None:
    jvm = "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB"
    avro = {"op": "sink", "connector": "files", "format": "avro", "path": "out"}
    code = {"op": "spark", "function": "a:b", "output": "k INT"}
    calls = {"op": "sql", "query": "SELECT reflect('java.lang.System', 'exit', 1) FROM bids"}

    assert found_in(spark={"spark.driver.memory": "4g"}) == [(None, "spark")]
    assert found_in(spark={jvm: "64"}) == [(None, "spark")]
    assert found_in(artifacts=["ab" * 32]) == [(None, "artifacts")]
    assert found_in(vertices=with_vertex(**avro)[:2]) == [("made", "connector")]
    assert set(found_in(vertices=with_vertex(**code))) == {("made", "function"), ("made", "op")}
    assert found_in(vertices=with_vertex(**calls)) == [("made", "vertices")]


def test_a_job_that_would_take_the_slots_of_the_others_has_its_own() -> None:
    assert found_in(mode="batch", vertices=a_batch()) == [(None, "execution.runner")]
    topic = {"connector": "kafka", "servers": "h:1", "topic": "t", "format": "json"}
    real_time = [
        {"id": "in", "op": "source", "schema": "k INT", **topic},
        {"id": "out", "op": "sink", "inputs": ["in"], **topic},
    ]
    found = found_in(execution={"runner": "shared", "style": "real_time"}, vertices=real_time)
    assert found == [(None, "execution.runner"), ("in", "connector"), ("out", "connector")]


def a_batch() -> list[dict[str, Any]]:
    return [
        {
            "id": "rows",
            "op": "source",
            "connector": "files",
            "format": "json",
            "path": "in",
            "schema": "n LONG",
        },
        {
            "id": "out",
            "op": "sink",
            "inputs": ["rows"],
            "connector": "files",
            "format": "json",
            "path": "o",
        },
    ]


def test_every_fault_is_named_at_once() -> None:
    found = found_in(
        replace(HERE, jobs=0),
        spark={"spark.driver.memory": "4g", "spark.foo": "1"},
        artifacts=["ab" * 32],
        vertices=with_vertex(op="spark", function="a:b", output="k INT"),
    )

    assert {field for _, field in found} == {
        "execution.runner",
        "spark",
        "artifacts",
        "function",
        "op",
    }
    assert len([one for one in found if one == (None, "spark")]) == 2


# ── the process that a job goes to ────────────────────────────────────────────

ROOMS = st.lists(
    st.builds(
        SharedRoom,
        id=st.uuids(),
        jobs=st.integers(0, 6),
        served=st.integers(0, 120),
        is_open=st.booleans(),
    ),
    unique_by=lambda one: one.id,
)


@given(ROOMS, st.integers(1, 5))
def test_a_job_goes_to_a_process_that_has_room_if_there_is_one(
    rooms: list[SharedRoom], most: int
) -> None:
    def fits(one: SharedRoom) -> bool:
        return one.is_open and one.jobs < most and one.served < MOST_SERVED * most

    found = place(rooms, most)

    if found is None:
        assert not any(map(fits, rooms))
    else:
        [room] = [one for one in rooms if one.id == found]
        assert fits(room)
        assert all(one.jobs <= room.jobs for one in rooms if fits(one)), "the fullest that fits"


@given(st.lists(st.integers(0, 40), max_size=200), st.integers(1, 7))
def test_no_process_ever_has_more_jobs_than_it_may(events: list[int], most: int) -> None:
    """Jobs come (even numbers) and go (odd numbers)."""
    jobs: dict[UUID, int] = {}
    served: dict[UUID, int] = {}
    for event in events:
        if event % 2 == 0:
            rooms = [SharedRoom(one, jobs[one], served[one]) for one in jobs]
            chosen = place(rooms, most) or uuid4()
            jobs[chosen] = jobs.get(chosen, 0) + 1
            served[chosen] = served.get(chosen, 0) + 1
        elif busy := [one for one in jobs if jobs[one]]:
            jobs[busy[event % len(busy)]] -= 1
        assert all(number <= most for number in jobs.values())
        assert all(number <= MOST_SERVED * most for number in served.values())


def test_processes_are_filled_before_another_is_started() -> None:
    fuller, emptier = SharedRoom(uuid4(), 3, 3), SharedRoom(uuid4(), 1, 1)

    assert place([emptier, fuller], most=4) == fuller.id
    assert place([emptier, replace(fuller, jobs=4)], most=4) == emptier.id
    assert place([], most=4) is None
