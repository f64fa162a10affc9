"""Windows in Python against the same windows computed row by row."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskrunner.core.end_of_time import END_OF_TIME_MS
from taskrunner.keyed.windows.spec import (
    AtEnd,
    Counted,
    Endless,
    EveryInterval,
    EveryRows,
    Evictor,
    KeepNear,
    KeepRows,
    KeepTime,
    Session,
    Tumbling,
    WhenMoved,
)
from tests.unit.taskrunner.windows_by_hand import SECOND, Batch, Result, Row, a_spec, run

THE_END = END_OF_TIME_MS // 1000


def in_order(batches: Sequence[Batch]) -> Iterator[tuple[int | None, Row]]:
    for batch in batches:
        for row in sorted(batch.rows, key=lambda row: row[1]):
            yield batch.watermark, row


@st.composite
def streams(draw: st.DrawFn) -> list[Batch]:
    """Rows out of order in batches, a watermark that lags behind, and the end."""
    batches: list[Batch] = []
    watermark = None
    value = 0
    for _ in range(draw(st.integers(1, 5))):
        rows: list[Row] = []
        for _ in range(draw(st.integers(0, 8))):
            value += 1
            rows.append((draw(st.sampled_from("ab")), draw(st.integers(0, 40)), value))
        batches.append(Batch(rows, watermark))
        latest = max((t for batch in batches for _, t, _ in batch.rows), default=None)
        if latest is not None:
            delay = draw(st.integers(0, 10))
            watermark = max(watermark or 1, latest - delay, 1)
    return [*batches, Batch([], THE_END)]


def counted(batches: Sequence[Batch], size: int, every: int) -> list[Result]:
    """After every so many rows of a key, the last `size`."""
    seen: dict[str, list[int]] = defaultdict(list)
    found = []
    for _, (key, _, value) in in_order(batches):
        seen[key].append(value)
        if len(seen[key]) % every == 0:
            found.append((key, len(seen[key]) // every, seen[key][-size:]))
    return found


@given(streams(), st.integers(1, 4))
def test_count_windows(batches: list[Batch], size: int) -> None:
    assert sorted(run(a_spec(Counted(size), EveryRows(size)), batches).results) == sorted(
        counted(batches, size, size)
    )


@given(streams(), st.integers(1, 4), st.integers(0, 3))
def test_sliding_count_windows(batches: list[Batch], every: int, more: int) -> None:
    size = every + more
    spec = a_spec(Endless(), EveryRows(every), KeepRows(size))

    assert sorted(run(spec, batches).results) == sorted(counted(batches, size, every))


@given(streams(), st.integers(1, 4))
def test_a_global_window_holds_all_rows_of_its_key(batches: list[Batch], every: int) -> None:
    everything = sum(len(batch.rows) for batch in batches)

    assert sorted(run(a_spec(Endless(), EveryRows(every)), batches).results) == sorted(
        counted(batches, everything, every)
    )


@given(streams())
def test_a_global_window_by_event_time_emits_at_the_end(batches: list[Batch]) -> None:
    by_key: dict[str, list[int]] = defaultdict(list)
    for _, (key, _, value) in in_order(batches):
        by_key[key].append(value)

    assert sorted(run(a_spec(Endless(), AtEnd()), batches).results) == sorted(
        (key, 1, values) for key, values in by_key.items()
    )


def by_policies(batches: Sequence[Batch], every: float, evictor: Evictor) -> list[Result]:
    """A global window that emits when the value moved, on what the evictor left."""
    buffers: dict[str, list[tuple[int, int]]] = defaultdict(list)
    marks: dict[str, int] = {}
    panes: dict[str, int] = defaultdict(int)
    found = []
    for _, (key, time, value) in in_order(batches):
        buffers[key].append((time, value))
        if key not in marks:
            marks[key] = value
        elif abs(value - marks[key]) > every:
            marks[key] = value
            buffers[key] = evicted(evictor, buffers[key])
            panes[key] += 1
            found.append((key, panes[key], [v for _, v in buffers[key]]))
    return found


def evicted(evictor: Evictor, rows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    match evictor:
        case KeepRows(count=count):
            return rows[-count:]
        case KeepTime(within_us=within):
            latest = max(time for time, _ in rows)
            return [row for row in rows if row[0] > latest - within / SECOND]
        case KeepNear(threshold=threshold):
            return [row for row in rows if abs(row[1] - rows[-1][1]) < threshold]


@given(
    streams(),
    st.integers(0, 4),
    st.one_of(
        st.builds(KeepRows, st.integers(1, 4)),
        st.builds(KeepTime, st.just(1), st.integers(1, 20).map(lambda n: n * SECOND)),
        st.builds(KeepNear, st.just(0), st.floats(0.5, 6)),
    ),
)
def test_delta_triggers_and_all_evictors(
    batches: list[Batch], threshold: int, evictor: Evictor
) -> None:
    spec = a_spec(Endless(), WhenMoved(0, threshold), evictor)

    assert sorted(run(spec, batches).results) == sorted(by_policies(batches, threshold, evictor))


def fixed(
    batches: Sequence[Batch], size: int, every: int, lateness: int
) -> tuple[list[Result], list[int]]:
    """Windows by event time: when the watermark passes the end, and again with late rows."""
    windows: dict[tuple[str, int], list[int]] = defaultdict(list)
    emitted: set[tuple[str, int]] = set()
    results: list[Result] = []
    late: list[int] = []
    for batch in batches:
        watermark = float("-inf") if batch.watermark is None else batch.watermark
        for one in sorted(windows):
            if one[1] + size <= watermark and one not in emitted:
                emitted.add(one)
                results.append((one[0], one[1], one[1] + size, list(windows[one])))
        touched = set()
        for key, time, value in sorted(batch.rows, key=lambda row: row[1]):
            mine = [s for s in (every * n for n in range(-40, 60)) if s <= time < s + size]
            still_open = [s for s in mine if s + size + lateness > watermark]
            if not still_open:
                late.append(value)
            for start in still_open:
                windows[key, start].append(value)
                if start + size <= watermark:
                    touched.add((key, start))
        for one in sorted(touched):
            emitted.add(one)
            results.append((one[0], one[1], one[1] + size, list(windows[one])))
    return results, late


@settings(max_examples=200)
@given(streams(), st.integers(1, 10), st.integers(1, 3), st.sampled_from([0, 1, 5, 100]))
def test_tumbling_and_sliding_windows(
    batches: list[Batch], every: int, times: int, lateness: int
) -> None:
    size = every * times
    spec = a_spec(Tumbling(size * SECOND, every * SECOND), lateness=lateness)

    found = run(spec, batches)

    results, late = fixed(batches, size, every, lateness)
    assert sorted(found.results) == sorted(results)
    assert sorted(found.late) == sorted(late)
    assert found.state is None, "after the end nothing is kept"


def sessions(batches: Sequence[Batch], gap: int, lateness: int) -> tuple[list[Result], list[int]]:
    """Row by row: each is a session of its own, joined with those it overlaps."""
    open_sessions: dict[str, list[dict[str, Any]]] = defaultdict(list)
    results: list[Result] = []
    late: list[int] = []

    def emit(key: str, one: dict[str, Any]) -> None:
        one["emitted"] = True
        results.append((key, one["start"], one["end"], list(one["values"])))

    for batch in batches:
        watermark = float("-inf") if batch.watermark is None else batch.watermark
        for key, found in open_sessions.items():
            for one in found:
                if one["end"] <= watermark and not one["emitted"]:
                    emit(key, one)
            open_sessions[key] = [one for one in found if one["end"] + lateness > watermark]
        touched: list[tuple[str, dict[str, Any]]] = []
        for key, time, value in sorted(batch.rows, key=lambda row: row[1]):
            mine = [
                one for one in open_sessions[key] if one["start"] < time + gap and time < one["end"]
            ]
            start = min([time, *(one["start"] for one in mine)])
            end = max([time + gap, *(one["end"] for one in mine)])
            if end + lateness <= watermark:
                late.append(value)
                continue
            values = [v for one in sorted(mine, key=lambda s: s["start"]) for v in one["values"]]
            joined = {"start": start, "end": end, "values": [*values, value], "emitted": False}
            open_sessions[key] = [one for one in open_sessions[key] if one not in mine] + [joined]
            touched = [(k, one) for k, one in touched if one not in mine] + [(key, joined)]
        for key, one in touched:
            if one["end"] <= watermark:
                emit(key, one)
    return results, late


@settings(max_examples=300)
@given(streams(), st.integers(1, 8), st.sampled_from([0, 1, 5, 100]))
def test_sessions(batches: list[Batch], gap: int, lateness: int) -> None:
    found = run(a_spec(Session(gap * SECOND), lateness=lateness), batches)

    results, late = sessions(batches, gap, lateness)
    assert sorted(found.results) == sorted(results)
    assert sorted(found.late) == sorted(late)
    assert found.state is None


@given(streams(), st.integers(1, 3))
def test_a_count_trigger_takes_the_place_of_the_end_of_the_window(
    batches: list[Batch], every: int
) -> None:
    spec = a_spec(Tumbling(10 * SECOND, 10 * SECOND), EveryRows(every))

    windows: dict[tuple[str, int], list[int]] = defaultdict(list)
    expected = []
    for watermark, (key, time, value) in in_order(batches):
        start = time // 10 * 10
        if watermark is None or start + 10 > watermark:
            windows[key, start].append(value)
            if len(windows[key, start]) % every == 0:
                expected.append((key, start, start + 10, list(windows[key, start])))
    assert sorted(run(spec, batches).results) == sorted(expected)


def test_an_incomplete_count_window_is_not_emitted_at_the_end() -> None:
    batches = [Batch([("a", 1, 1), ("a", 2, 2)]), Batch([], THE_END)]

    assert run(a_spec(Counted(3), EveryRows(3)), batches).results == []


def test_by_processing_time_a_window_emits_at_whole_intervals_if_rows_came() -> None:
    spec = a_spec(Endless(), EveryInterval(10_000))

    found = run(
        spec,
        [
            Batch([("a", 1, 1)], processing=3),
            Batch([("a", 1, 2), ("b", 1, 3)], processing=9),
            Batch([], processing=10),  # due
            Batch([], processing=20),  # no rows came since
            Batch([("a", 1, 4)], processing=21),
            Batch([("a", 1, 5)], processing=31),  # due, before its own row
        ],
    )

    assert found.results == [("a", 1, [1, 2]), ("b", 1, [3]), ("a", 2, [1, 2, 4])]


def test_by_processing_time_what_is_pending_is_emitted_when_the_window_is_over() -> None:
    spec = a_spec(Tumbling(10 * SECOND, 10 * SECOND), EveryInterval(60_000))

    found = run(spec, [Batch([("a", 1, 1)], processing=1), Batch([("b", 30, 2)], 12, 2)])

    assert found.results == [("a", 0, 10, [1])]


@pytest.mark.parametrize("empty", [[], [Batch([])]])
def test_no_rows_no_windows(empty: list[Batch]) -> None:
    for kind in (Counted(2), Endless(), Tumbling(SECOND, SECOND), Session(SECOND)):
        assert run(a_spec(kind), [*empty, Batch([], THE_END)]).results == []


def test_rows_far_apart_take_no_longer_than_rows_close_together() -> None:
    spec = a_spec(Tumbling(2 * SECOND, SECOND))

    found = run(spec, [Batch([("a", 0, 1), ("a", 10**9, 2)]), Batch([], THE_END)])

    assert [result[1] for result in found.results] == [-1, 0, 10**9 - 1, 10**9]
