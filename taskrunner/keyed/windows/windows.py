"""The windows of a key: how rows are assigned to them, and when they emit.

A window is a list: its contents, the memory of its trigger, and a mark. For every kind of window,
a call first advances the clocks (`advance`), then adds rows (`add`), key by key.
"""

from bisect import bisect_left
from typing import Any, Protocol

from taskrunner.core.end_of_time import END_OF_TIME_MS
from taskrunner.keyed.windows import policies
from taskrunner.keyed.windows.aggregators import Columns
from taskrunner.keyed.windows.arrivals import Key
from taskrunner.keyed.windows.contents import Contents
from taskrunner.keyed.windows.emission import Emission
from taskrunner.keyed.windows.spec import (
    AtEnd,
    Counted,
    EveryInterval,
    Session,
    Tumbling,
    WindowSpec,
)
from taskrunner.keyed.windows.window_state import Now, WindowState

_CONTENT, _MEMORY, _MARK = range(3)
"""The mark of a time window says whether it has emitted at its end; of others, how often."""
Entry = list[Any]


class Windows(Protocol):
    def advance(self, book: WindowState, now: Now, out: Emission) -> None: ...

    def add(
        self,
        book: WindowState,
        key: Key,
        columns: Columns,
        begin: int,
        end: int,
        now: Now,
        out: Emission,
    ) -> None: ...


def windows_of(spec: WindowSpec, contents: Contents) -> Windows:
    match spec.kind:
        case Tumbling():
            return FixedWindows(spec, contents, spec.kind)
        case Session():
            return Sessions(spec, contents, spec.kind)
        case _:
            return PaneWindows(spec, contents)


def next_tick(trigger: EveryInterval, now: Now) -> int:
    """The next whole multiple of the interval."""
    return now.processing_ms - now.processing_ms % trigger.interval_ms + trigger.interval_ms


class PaneWindows:
    """Windows without an end in time: each key has one at a time. Their emissions are numbered."""

    def __init__(self, spec: WindowSpec, contents: Contents) -> None:
        self._trigger = spec.trigger
        self._contents = contents
        self._purges = isinstance(spec.kind, Counted)

    def advance(self, book: WindowState, now: Now, out: Emission) -> None:
        if isinstance(self._trigger, AtEnd) and now.is_end:
            for key, entry in book.keys.items():
                self._emit(key, entry, out)
            book.keys.clear()
        elif isinstance(self._trigger, EveryInterval) and _has_come(book.tick_ms, now):
            book.tick_ms = None
            for key, entry in book.keys.items():
                if _has_come(entry[_MEMORY], now):
                    self._emit(key, entry, out)
                    entry[_MEMORY] = None
                elif entry[_MEMORY] is not None:
                    book.expect_tick(entry[_MEMORY])

    def add(
        self,
        book: WindowState,
        key: Key,
        columns: Columns,
        begin: int,
        end: int,
        now: Now,
        out: Emission,
    ) -> None:
        entry = book.keys.get(key)
        if entry is None:
            entry = book.keys[key] = [self._contents.new(), None, 0]
        cuts, entry[_MEMORY] = policies.cuts(self._trigger, entry[_MEMORY], columns, begin, end)
        take_in = self._contents.add
        for cut in cuts:
            take_in(entry[_CONTENT], columns, begin, cut)
            self._emit(key, entry, out)
            begin = cut
        if begin < end:
            take_in(entry[_CONTENT], columns, begin, end)
        if isinstance(self._trigger, EveryInterval):
            if entry[_MEMORY] is None:
                entry[_MEMORY] = next_tick(self._trigger, now)
            book.expect_tick(entry[_MEMORY])
        elif isinstance(self._trigger, AtEnd):
            book.expect(END_OF_TIME_MS * 1000)

    def _emit(self, key: Key, entry: Entry, out: Emission) -> None:
        entry[_MARK] += 1
        out.add(self._contents.emit(entry[_CONTENT], (key, None, None, entry[_MARK])))
        if self._purges:
            entry[_CONTENT] = self._contents.new()


class _TimeWindows:
    """The common part of tumbling, sliding and session windows."""

    def __init__(self, spec: WindowSpec, contents: Contents) -> None:
        assert spec.time is not None
        self._time = spec.time
        self._trigger = spec.trigger
        self._emits_at_end = isinstance(spec.trigger, AtEnd)
        self._lateness = spec.lateness_us
        self._contents = contents

    def _new(self) -> Entry:
        return [self._contents.new(), None, False]

    def _emit(self, key: Key, start: int, end: int, entry: Entry, out: Emission) -> None:
        out.add(self._contents.emit(entry[_CONTENT], (key, start, end, None)))

    def _feed(
        self, key: Key, start: int, end: int, entry: Entry, columns: Columns,
        first: int, last: int, out: Emission,
    ) -> None:  # fmt: skip
        cuts, entry[_MEMORY] = policies.cuts(self._trigger, entry[_MEMORY], columns, first, last)
        for cut in cuts:
            self._contents.add(entry[_CONTENT], columns, first, cut)
            self._emit(key, start, end, entry, out)
            first = cut
        if first < last:
            self._contents.add(entry[_CONTENT], columns, first, last)

    def _emit_changes(
        self,
        book: WindowState,
        key: Key,
        start: int,
        end: int,
        entry: Entry,
        now: Now,
        out: Emission,
    ) -> None:
        """After rows of a batch were added: emits changed windows that the watermark has passed,
        and schedules the next call for the window.
        """
        if self._emits_at_end:
            entry[_MARK] = end <= now.watermark_us
            if entry[_MARK]:
                self._emit(key, start, end, entry, out)
        if isinstance(self._trigger, EveryInterval):
            if entry[_MEMORY] is None:
                entry[_MEMORY] = next_tick(self._trigger, now)
            book.expect_tick(entry[_MEMORY])
        book.expect(self._due(end, entry))

    def _pass(
        self,
        book: WindowState,
        key: Key,
        start: int,
        end: int,
        entry: Entry,
        now: Now,
        out: Emission,
    ) -> bool:
        """Advances the clocks for a window; returns whether the window is kept."""
        is_over = end + self._lateness <= now.watermark_us
        if self._emits_at_end:
            if not entry[_MARK] and end <= now.watermark_us:
                entry[_MARK] = True
                self._emit(key, start, end, entry, out)
        elif isinstance(self._trigger, EveryInterval) and entry[_MEMORY] is not None:
            if is_over or _has_come(entry[_MEMORY], now):
                entry[_MEMORY] = None
                self._emit(key, start, end, entry, out)
            else:
                book.expect_tick(entry[_MEMORY])
        if not is_over:
            book.expect(self._due(end, entry))
        return not is_over

    def _due(self, end: int, entry: Entry) -> int:
        return end if self._emits_at_end and not entry[_MARK] else end + self._lateness

    def _with_time(self, columns: Columns, begin: int, end: int) -> int:
        """The end of the key's rows that have a time: rows without a time come last."""
        times = columns[self._time]
        while end > begin and times[end - 1] is None:
            end -= 1
        return end


def _is_idle(book: WindowState, now: Now) -> bool:
    """Whether neither clock has reached a due window."""
    is_due = book.due_us is not None and book.due_us <= now.watermark_us
    return not is_due and not _has_come(book.tick_ms, now)


class FixedWindows(_TimeWindows):
    """Tumbling and sliding windows: the windows of a key by their start."""

    def __init__(self, spec: WindowSpec, contents: Contents, kind: Tumbling) -> None:
        super().__init__(spec, contents)
        self._size, self._every = kind.size_us, kind.every_us

    def advance(self, book: WindowState, now: Now, out: Emission) -> None:
        if _is_idle(book, now):
            return
        book.due_us = book.tick_ms = None
        for key in list(book.keys):
            windows = book.keys[key]
            for start in sorted(windows):
                end = start + self._size
                if not self._pass(book, key, start, end, windows[start], now, out):
                    del windows[start]
            if not windows:
                del book.keys[key]

    def add(
        self,
        book: WindowState,
        key: Key,
        columns: Columns,
        begin: int,
        end: int,
        now: Now,
        out: Emission,
    ) -> None:
        times = columns[self._time]
        end = self._with_time(columns, begin, end)
        open_from = self._first_open(now)
        # a row is late if even the last of its windows is over
        in_time = bisect_left(times, open_from, begin, end)
        out.add_late(columns, begin, in_time)
        if in_time == end:
            return
        windows = book.keys.setdefault(key, {})
        start = max(self._first_with(times[in_time]), open_from)
        while start <= times[end - 1]:
            first = bisect_left(times, start, in_time, end)
            last = bisect_left(times, start + self._size, first, end)
            if first == last:
                start = self._first_with(times[first])  # over a gap
                continue
            entry = windows.get(start)
            if entry is None:
                entry = windows[start] = self._new()
            bounds = start, start + self._size
            self._feed(key, *bounds, entry, columns, first, last, out)
            self._emit_changes(book, key, *bounds, entry, now, out)
            start += self._every

    def _first_open(self, now: Now) -> int:
        """The start of the first window that is not over, allowed lateness included."""
        return ((now.watermark_us - self._size - self._lateness) // self._every + 1) * self._every

    def _first_with(self, time: int) -> int:
        """The start of the first window that holds this time."""
        return ((time - self._size) // self._every + 1) * self._every


class Sessions(_TimeWindows):
    """Session windows: the sessions of a key by their start, each with its end."""

    def __init__(self, spec: WindowSpec, contents: Contents, kind: Session) -> None:
        super().__init__(spec, contents)
        self._gap = kind.gap_us

    def advance(self, book: WindowState, now: Now, out: Emission) -> None:
        if _is_idle(book, now):
            return
        book.due_us = book.tick_ms = None
        for key in list(book.keys):
            sessions = book.keys[key]
            kept = [
                [start, end, entry]
                for start, end, entry in sessions
                if self._pass(book, key, start, end, entry, now, out)
            ]
            if kept:
                book.keys[key] = kept
            else:
                del book.keys[key]

    def add(
        self,
        book: WindowState,
        key: Key,
        columns: Columns,
        begin: int,
        end: int,
        now: Now,
        out: Emission,
    ) -> None:
        times = columns[self._time]
        end = self._with_time(columns, begin, end)
        sessions: list[Any] = book.keys.get(key, [])
        touched: dict[int, None] = {}
        at = begin
        while at < end:
            session = self._joined(sessions, times[at])
            if session is None:
                if times[at] + self._gap + self._lateness <= now.watermark_us:
                    out.add_late(columns, at, at + 1)
                    at += 1
                    continue
                session = [times[at], times[at] + self._gap, self._new()]
                sessions.insert(bisect_left(sessions, times[at], key=_start), session)
            stop = self._extend(sessions, session, times, at, end)
            self._feed(key, session[0], session[1], session[2], columns, at, stop, out)
            touched[id(session)] = None
            at = stop
        if sessions:
            book.keys[key] = sessions
        for session in sessions:
            if id(session) in touched:
                self._emit_changes(book, key, session[0], session[1], session[2], now, out)

    def _joined(self, sessions: list[Any], time: int) -> Any:
        """The session that a row of that time belongs to; the row may merge several sessions."""
        near = [one for one in sessions if one[0] < time + self._gap and time < one[1]]
        if not near:
            return None
        first, *others = near
        for other in others:
            first[1] = max(first[1], other[1])
            first[2] = self._merged(first[2], other[2])
            sessions.remove(other)
        first[0] = min(first[0], time)
        first[1] = max(first[1], time + self._gap)
        return first

    def _merged(self, entry: Entry, other: Entry) -> Entry:
        return [
            self._contents.merge(entry[_CONTENT], other[_CONTENT]),
            policies.merged(self._trigger, entry[_MEMORY], other[_MEMORY]),
            False,
        ]

    def _extend(
        self, sessions: list[Any], session: Any, times: list[Any], at: int, end: int
    ) -> int:
        """Adds the times that follow, up to a time that also belongs to another session."""
        following = sessions.index(session) + 1
        limit = sessions[following][0] if following < len(sessions) else None
        stop = at + 1
        while stop < end and times[stop] < session[1]:
            reach = times[stop] + self._gap
            if limit is not None and reach > limit:
                break
            session[1] = max(session[1], reach)
            stop += 1
        return stop


def _start(session: Any) -> int:
    start: int = session[0]
    return start


def _has_come(tick_ms: int | None, now: Now) -> bool:
    return tick_ms is not None and (now.is_end or tick_ms <= now.processing_ms)
