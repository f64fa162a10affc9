"""Process functions in the harness: states, timers and times to live, against plain Python."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskrunner.api import Context, ListState, MapState, ProcessFunction, Row, ValueState, count
from taskrunner.api.harness import ProcessHarness
from taskrunner.keyed.errors import UserCodeError


class Reminder(ProcessFunction):
    """Tells what was put into a basket last and not bought within a minute."""

    last: ValueState[str] = ValueState()
    due: ValueState[int] = ValueState()

    def process(self, row: Row, ctx: Context) -> None:
        if self.due.value() is not None:
            ctx.delete_timer(self.due.value())
        if row["what"] == "bought":
            self.last.clear()
            self.due.clear()
            count("bought")
            return
        assert ctx.timestamp_ms is not None
        self.last.update(row["what"])
        self.due.update(ctx.timestamp_ms + 60_000)
        ctx.register_timer(ctx.timestamp_ms + 60_000)

    def on_timer(self, time_ms: int, ctx: Context) -> None:
        ctx.emit({"user": ctx.key, "left": self.last.value()})
        self.last.clear()
        self.due.clear()


def at(second: float) -> datetime:
    return datetime.fromtimestamp(1_000_000 + second, UTC)


def ms(second: float) -> int:
    return int((1_000_000 + second) * 1000)


def reminder() -> ProcessHarness:
    return ProcessHarness(Reminder, key="user", time="event", time_column="ts")


def test_a_timer_fires_when_the_watermark_reaches_it() -> None:
    harness = reminder()
    harness.feed({"user": "ann", "what": "book", "ts": at(0)})
    harness.feed({"user": "bob", "what": "pen", "ts": at(10)})

    harness.advance_watermark(ms(60) - 1)
    assert harness.take_output() == []
    harness.advance_watermark(at(60))

    assert harness.take_output() == [{"user": "ann", "left": "book"}]
    assert harness.state("ann") == {}
    assert harness.state("bob") == {"last": "pen", "due": ms(70)}
    assert harness.timers("bob") == [ms(70)]


def test_a_deleted_timer_does_not_fire() -> None:
    harness = reminder()
    harness.feed({"user": "ann", "what": "book", "ts": at(0)})
    harness.feed({"user": "ann", "what": "bought", "ts": at(5)})

    harness.drain()

    assert harness.take_output() == []
    assert harness.accumulators == {"bought": 1}


def test_a_timer_that_was_due_fires_before_the_rows_of_the_batch() -> None:
    harness = reminder()
    harness.feed({"user": "ann", "what": "book", "ts": at(0)})
    harness._watermark_ms = ms(100)  # reached together with the next rows

    harness.feed({"user": "ann", "what": "pen", "ts": at(99)})

    assert harness.take_output() == [{"user": "ann", "left": "book"}]
    assert harness.state("ann")["last"] == "pen"


def test_rows_of_a_batch_come_in_the_order_of_their_times() -> None:
    harness = reminder()

    harness.feed(
        {"user": "ann", "what": "pen", "ts": at(9)}, {"user": "ann", "what": "book", "ts": at(3)}
    )

    assert harness.state("ann")["last"] == "pen"


class Ticking(ProcessFunction):
    """A timer that registers the next one, for ever."""

    def process(self, row: Row, ctx: Context) -> None:
        ctx.register_timer(1000)

    def on_timer(self, time_ms: int, ctx: Context) -> None:
        ctx.emit({"at": time_ms})
        ctx.register_timer(time_ms + 1000)


def test_a_timer_for_every_second_catches_up_and_ends_at_the_end_of_time() -> None:
    harness = ProcessHarness(Ticking, time="processing")
    harness.feed({})

    harness.advance_processing_time(3500)
    assert [row["at"] for row in harness.take_output()] == [1000, 2000, 3000]
    harness.drain()

    assert [row["at"] for row in harness.take_output()] == [4000]
    assert harness.timers(()) == []


def test_without_a_clock_there_are_no_timers() -> None:
    with pytest.raises(UserCodeError, match="RuntimeError: this vertex has time: none"):
        ProcessHarness(Ticking).feed({})


class Everything(ProcessFunction):
    value: ValueState[int] = ValueState(default=0, ttl="10s")
    items: ListState[int] = ListState(ttl="10s")
    table: MapState[str, int] = MapState(ttl="10s")
    kept: ValueState[int] = ValueState(default=0)

    def process(self, row: Row, ctx: Context) -> None:
        ctx.emit(
            {
                "value": self.value.value(),
                "items": self.items.get(),
                "table": dict(self.table.items()),
                "kept": self.kept.value(),
            }
        )
        self.value.update(row["v"])
        self.items.add(row["v"])
        self.table.put(str(row["v"]), row["v"])
        self.kept.update(self.kept.value() + 1)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5)), max_size=25))
def test_what_is_older_than_its_ttl_is_not_seen(steps: list[tuple[int, int]]) -> None:
    harness = ProcessHarness(Everything, key="k", now=0)
    now = 0
    written: list[tuple[int, int]] = []
    seen: list[object] = []
    for wait, value in steps:
        now += wait * 250
        harness.advance_processing_time(now)
        harness.feed({"k": "a", "v": value})
        alive = [(t, v) for t, v in written if t + 10_000 > now]
        seen.append(
            {
                "value": alive[-1][1] if alive else 0,
                "items": [v for _, v in alive],
                "table": {str(v): v for _, v in alive},
                "kept": len(written),
            }
        )
        written.append((now, value))

    assert harness.take_output() == seen


class Expiring(ProcessFunction):
    value: ValueState[int] = ValueState(ttl="10s")

    def process(self, row: Row, ctx: Context) -> None:
        self.value.update(row["v"])


def test_a_key_of_which_nothing_is_left_is_forgotten_though_no_row_comes() -> None:
    harness = ProcessHarness(Expiring, key="k", time="event", time_column="ts")
    harness.feed({"k": "a", "v": 1, "ts": at(0)}, {"k": "b", "v": 2, "ts": at(5)})

    harness.advance_watermark(at(10))

    assert harness.state("a") == {}
    assert harness.state("b") == {"value": 2}


class Alarms(ProcessFunction):
    """Registers and deletes whatever timers it is told to."""

    def process(self, row: Row, ctx: Context) -> None:
        (ctx.register_timer if row["on"] else ctx.delete_timer)(row["at"])

    def on_timer(self, time_ms: int, ctx: Context) -> None:
        ctx.emit({"k": ctx.key, "at": time_ms})


_ORDERS = st.lists(
    st.one_of(
        st.tuples(st.just("row"), st.sampled_from("ab"), st.integers(1, 60), st.booleans()),
        st.tuples(st.just("time"), st.integers(1, 60)),
    ),
    max_size=40,
)


@given(_ORDERS)
def test_timers_fire_once_in_order_when_their_time_has_come(orders: list[tuple[Any, ...]]) -> None:
    """Against sets of pending timers in plain Python, one call of the function at a time."""
    harness = ProcessHarness(Alarms, key="k", time="processing", now=0)
    pending: dict[str, set[int]] = {"a": set(), "b": set()}
    now = 0

    def due() -> Iterable[tuple[str, int]]:
        for key, mine in pending.items():
            for time_ms in sorted(one for one in mine if one <= now):
                mine.discard(time_ms)
                yield key, time_ms

    for order in orders:
        if order[0] == "time":
            now = max(now, order[1])
            harness.advance_processing_time(now)
        else:
            _, key, time_ms, is_on = order
            (pending[key].add if is_on else pending[key].discard)(time_ms)
            harness.feed({"k": key, "at": time_ms, "on": is_on})
        wanted = list(due())
        found = [(row["k"], row["at"]) for row in harness.take_output()]
        assert sorted(found) == sorted(wanted)
        for key in pending:
            assert [one for one in found if one[0] == key] == [o for o in wanted if o[0] == key]
            assert harness.timers(key) == sorted(pending[key])


class Broken(ProcessFunction):
    basket: ValueState[object] = ValueState()

    def process(self, row: Row, ctx: Context) -> None:
        self.basket.update(Broken)


def test_a_state_that_is_no_plain_data_is_told_by_name() -> None:
    with pytest.raises(UserCodeError, match=r"state 'basket' holds a .*Broken: keep plain data"):
        ProcessHarness(Broken, key="k").feed({"k": 1})


def test_dates_decimals_and_texts_with_any_bytes_are_plain_data() -> None:
    class Keeper(ProcessFunction):
        held: ValueState[object] = ValueState()

        def process(self, row: Row, ctx: Context) -> None:
            self.held.update(row["v"])

    harness = ProcessHarness(Keeper, key="k")
    for value in (at(1), at(1).date(), [{"a": (1, 2.5, "\x93")}], {"x": b"\x93\x93"}, 0x93):
        harness.feed({"k": "a", "v": value})
        assert harness.state("a") == {"held": value}


def test_a_default_that_all_keys_would_share_is_refused() -> None:
    with pytest.raises(TypeError, match="shared by all keys"):
        ValueState(default=[])
