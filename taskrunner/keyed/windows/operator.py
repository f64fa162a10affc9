"""The operator of a buffered window, called once for each key group."""

import decimal

import pandas as pd

from taskrunner.keyed.operator import Moment, Outcome
from taskrunner.keyed.windows import window_state as books
from taskrunner.keyed.windows.arrivals import arrivals_of
from taskrunner.keyed.windows.contents import contents_of
from taskrunner.keyed.windows.emission import Emission
from taskrunner.keyed.windows.functions import evaluation_of
from taskrunner.keyed.windows.spec import EveryInterval, WindowSpec
from taskrunner.keyed.windows.window_state import Now, WindowState
from taskrunner.keyed.windows.windows import next_tick, windows_of

# sums of Spark's longest decimals are exact
_EXACT = decimal.Context(prec=76)


class WindowOperator:
    """A `GroupOperator`. The state of a group is a `WindowState`, pickled."""

    def __init__(self, spec: WindowSpec) -> None:
        self._spec = spec
        evaluate = None if spec.function is None else evaluation_of(spec.function)
        self._windows = windows_of(spec, contents_of(spec, evaluate))

    def take(self, state: bytes | None, rows: pd.DataFrame | None, moment: Moment) -> Outcome:
        with decimal.localcontext(_EXACT):
            book = books.read(state)
            now = Now(moment.watermark_ms * 1000, moment.processing_ms)
            out = Emission(self._spec)
            self._windows.advance(book, now, out)
            if rows is not None and len(rows):
                arrivals = arrivals_of(rows, self._spec.key, self._spec.columns)
                for key, begin, end in arrivals.slices:
                    self._windows.add(book, key, arrivals.columns, begin, end, now, out)
            return Outcome(out.frame(), books.write(book), self._timer(book, now))

    def _timer(self, book: WindowState, now: Now) -> int | None:
        trigger = self._spec.trigger
        if not isinstance(trigger, EveryInterval):
            return None if book.due_us is None else -(-book.due_us // 1000)
        if book.tick_ms is None and book.due_us is not None:
            # nothing to emit now, but windows to delete when the watermark passes: call again
            return next_tick(trigger, now)
        return book.tick_ms
