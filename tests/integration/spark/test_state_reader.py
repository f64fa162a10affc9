"""State read out of savepoints by real Spark, by the desk of the inspector."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, TypeVar

import pytest

from jobmanager.protocol.inspection import (
    AnswerBody,
    CountKeyGroups,
    KeyGroupCounts,
    ListStates,
    Place,
    Question,
    QuestionBody,
    ReadRows,
    Refusal,
    Rows,
    StateRef,
    StateRow,
    States,
)
from taskrunner.inspector.request_handler import RequestHandler
from tests.integration.spark.jobs import JobUnderTest, Row, files_sink, some_rows, table

ALL_ROWS = [*some_rows(), {"id": 1000, "k": None, "v": 1, "ts": some_rows()[-1]["ts"]}]
STATE = StateRef(region="out", vertex="it", name="default")
Wanted = TypeVar("Wanted", bound=AnswerBody)


def vertex(op: str, aggregate: dict[str, str] | None = None, **fields: Any) -> Row:
    return {
        "id": "it",
        "op": op,
        "inputs": ["rows"],
        "aggregate": aggregate or {"n": "count(*)", "total": "sum(v)"},
        **fields,
    }


class Questions:
    """Asks about the savepoint of a job that has read everything."""

    def __init__(self, job: JobUnderTest, it: Row) -> None:
        # Nothing is emitted before it is asked for: the watermark stays behind, and nobody looks
        # whether the source has given all its rows, which would begin the end of the job.
        source = table(ALL_ROWS, watermark={"column": "ts", "delay": "1h"})
        job.define(source, it, files_sink("it"), parallelism=3)
        job.start()
        job.wait(lambda: job.log().last_committed() is not None)
        job.stop_at_boundary()
        self.savepoint: Path = job.savepoint()
        self.place = Place(
            root=self.savepoint.as_uri(), manifest="manifest.json", graph=job.document
        )
        self._handler = RequestHandler(job.spark, job.root / "scratch")

    def ask(self, body: QuestionBody, wanted: type[Wanted], within_ms: int = 60_000) -> Wanted:
        answer = self._handler.answer(Question(id=1, within_ms=within_ms, body=body))
        assert isinstance(answer, wanted), answer
        return answer

    def read(self, key: str | None = None, **more: Any) -> Rows:
        return self.ask(ReadRows(place=self.place, state=STATE, key=key, **more), Rows)

    def schema(self) -> tuple[dict[str, str], dict[str, str]]:
        [state] = self.ask(ListStates(place=self.place), States).states
        assert (state.vertex, state.name) == ("it", "default")
        return {c.name: c.type for c in state.key}, {c.name: c.type for c in state.value}

    def groups(self) -> KeyGroupCounts:
        return self.ask(CountKeyGroups(place=self.place, state=STATE), KeyGroupCounts)

    def refusal(self, body: QuestionBody, within_ms: int = 60_000) -> str:
        refused = self.ask(body, Refusal, within_ms)
        return f"{refused.reason}: {refused.message}"


def check_groups(questions: Questions) -> None:
    """The histogram, which is made of raw bytes, agrees with the rows, which are decoded."""
    expected: dict[tuple[int | None, int], int] = defaultdict(int)
    for row in questions.read(limit=1000).rows:
        expected[row.key_group, row.subtask] += 1
        assert row.key_group is not None
        assert row.subtask == row.key_group % 3
    counted = questions.groups().groups
    assert {(one.key_group, one.subtask): one.rows for one in counted} == expected


def test_an_aggregate(job: JobUnderTest) -> None:
    questions = Questions(job, vertex("aggregate", key=["k"]))
    assert questions.schema() == ({"k": "STRING"}, {"n": "BIGINT", "total": "BIGINT"})
    for key in ("k0", "k1", None):
        [row] = questions.read(json.dumps({"k": key})).rows
        mine = [row["v"] for row in ALL_ROWS if row["k"] == key]
        assert row.value == {"n": len(mine), "total": sum(mine)}
    check_groups(questions)
    # A table source is read as a file of the job; the savepoint is only read.
    assert not list(questions.savepoint.rglob("pool.lock"))


@pytest.mark.long
def test_a_sliding_window_is_found_by_key_and_by_start(job: JobUnderTest) -> None:
    questions = Questions(
        job, vertex("window", key=["k"], window={"sliding": "20s", "every": "10s"})
    )
    everything = questions.read(limit=1000).rows
    of_key = questions.read("k2").rows
    assert of_key == [row for row in everything if row.key["k"] == "k2"]
    # older ones may have been emitted already
    assert len({row.key["window_start"] for row in of_key}) == len(of_key) > 1
    one = {"k": "k2", "window_start": of_key[1].key["window_start"]}
    assert questions.read(json.dumps(one)).rows == [of_key[1]]
    check_groups(questions)


@pytest.mark.long
def test_a_session_shows_its_window_and_is_spread_by_its_key(job: JobUnderTest) -> None:
    questions = Questions(job, vertex("window", key=["k"], window={"session": "3s"}))
    assert questions.schema() == (
        {"k": "STRING", "window_start": "TIMESTAMP", "window_end": "TIMESTAMP"},
        {"n": "BIGINT", "total": "BIGINT"},
    )
    assert sum(row.value["n"] for row in questions.read(limit=1000).rows) == len(ALL_ROWS)
    [row] = questions.read("k2").rows
    assert row.key["window_start"] == "2026-01-01T00:00:00.000000Z"
    check_groups(questions)


def test_a_vertex_without_a_key_is_one_row_in_no_group(job: JobUnderTest) -> None:
    questions = Questions(job, vertex("aggregate", key=[]))
    [row] = questions.read().rows
    assert (row.key, row.value["n"]) == ({}, len(ALL_ROWS))
    assert (row.key_group, row.subtask) == (None, 0)
    [group] = questions.groups().groups
    assert (group.key_group, group.rows) == (None, 1)
    asked = ReadRows(place=questions.place, state=STATE, key="x")
    assert questions.refusal(asked) == (
        "bad_key: this state has no key: read all of it, it is one row"
    )


def test_pages_are_the_same_rows_in_the_same_order(job: JobUnderTest) -> None:
    questions = Questions(job, vertex("aggregate", key=["k", "v"]))
    everything = questions.read(limit=1000).rows
    assert len(everything) == len({(row["k"], row["v"]) for row in ALL_ROWS})
    places = [(row.subtask, row.key["k"] or "", row.key["v"]) for row in everything]
    assert places == sorted(places)
    limit = 41
    page = questions.read(limit=limit)
    found = page.rows
    while page.next_subtask is not None:
        page = questions.read(subtask=page.next_subtask, skip=page.next_skip, limit=limit)
        assert 0 < len(page.rows) <= limit
        found = found + page.rows
    assert found == everything
    # A part of a key is a search through all of it.
    part = questions.read('{"v": 1}').rows
    assert part == [row for row in everything if row.key["v"] == 1]
    check_groups(questions)


def test_values_are_shown_without_loss(job: JobUnderTest) -> None:
    results = {
        "money": "max(cast(v as decimal(20, 2)))",
        "at": "max(ts)",
        "raw": "max(cast('ab' as binary))",
        "day": "max(to_date(ts))",
        "all": "collect_set(cast(1.5 as decimal(3, 1)))",
    }
    questions = Questions(job, vertex("aggregate", results, key=["k"]))
    [row] = questions.read("k0").rows
    shown = list(row.value.values())
    assert shown[0] == f"{max(row['v'] for row in ALL_ROWS if row['k'] == 'k0')}.00"
    assert shown[1].startswith("2026-01-01T00:00:5")
    assert shown[1].endswith(".000000Z")
    assert shown[2:4] == ["YWI=", "2026-01-01"]


def test_refusals(job: JobUnderTest) -> None:
    questions = Questions(job, vertex("aggregate", key=["k", "v"]))
    place = questions.place
    key = '{"v": "many"}'
    bad_key = questions.refusal(ReadRows(place=place, state=STATE, key=key))
    assert bad_key.startswith("bad_key: 'many' is no BIGINT: the key columns are k STRING, v")
    other = STATE.model_copy(update={"name": "other"})
    assert questions.refusal(CountKeyGroups(place=place, state=other)) == (
        "unknown_state: there is no state it/other in region out; there is: it/default"
    )
    gone = place.model_copy(update={"root": f"{place.root}-gone"})
    assert questions.refusal(ListStates(place=gone)).startswith("gone: ")
    late = questions.refusal(ReadRows(place=place, state=STATE), within_ms=1)
    assert late == "not_in_time: not done within 0.001 s"
    assert questions.read(limit=1).rows  # and goes on


@pytest.mark.parametrize("document", [{}, {"name": "x", "vertices": []}])
def test_state_can_be_read_without_its_graph(job: JobUnderTest, document: Row) -> None:
    questions = Questions(job, vertex("window", key=["k"], window={"tumbling": "10s"}))
    questions.place = questions.place.model_copy(update={"graph": document})
    key, value = questions.schema()
    assert list(key) == ["window_start", "window_end", "k"]
    assert list(value) == ["count", "sum"]
    assert questions.read("k2").rows


def test_state_of_a_process_function_is_shown_by_its_names(job: JobUnderTest) -> None:
    it = {
        "id": "it",
        "op": "process",
        "inputs": ["rows"],
        "key": ["k"],
        "function": "tests.support.user_code:Sums",
        "output": "k STRING, n BIGINT, total BIGINT",
    }
    questions = Questions(job, it)
    wanted: dict[Any, dict[str, int]] = defaultdict(lambda: {"n": 0, "total": 0})
    for row in ALL_ROWS:
        wanted[row["k"]]["n"] += 1
        wanted[row["k"]]["total"] += row["v"]

    [state] = questions.ask(ListStates(place=questions.place), States).states
    assert (state.vertex, [one.name for one in state.key]) == ("it", ["k"])
    one = ReadRows(place=questions.place, state=STATE, key="k2")
    [found] = questions.ask(one, Rows).rows
    assert (found.key, found.value) == ({"k": "k2"}, wanted["k2"])
    none = ReadRows(place=questions.place, state=STATE, key='{"k": null}')
    assert [row.value for row in questions.ask(none, Rows).rows] == [wanted[None]]

    seen: list[StateRow] = []
    subtask: int | None = 0
    skip = 0
    while subtask is not None:
        page = ReadRows(place=questions.place, state=STATE, subtask=subtask, skip=skip, limit=3)
        answer = questions.ask(page, Rows)
        seen += answer.rows
        subtask, skip = answer.next_subtask, answer.next_skip
    assert {row.key["k"]: row.value for row in seen} == wanted
    assert len(seen) == len(wanted)
    counts = questions.ask(CountKeyGroups(place=questions.place, state=STATE), KeyGroupCounts)
    assert sum(group.rows for group in counts.groups) == len(wanted)
    assert {row.key_group for row in seen} == {group.key_group for group in counts.groups}
