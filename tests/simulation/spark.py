"""One region's query as Spark runs it: offsets, then the batch, then the commit.

A batch's range is logged before the batch runs, and its commit after its output is written. A query
that starts and finds a range without a commit runs the same range again.
"""

from collections.abc import Callable

from jobmanager.core.ids import RegionId
from tests.simulation import stream
from tests.simulation.choices import Choices
from tests.simulation.scheduler import Scheduler, Signal, Steps
from tests.simulation.sinks import SinkWriter, UnfencedWriter
from tests.simulation.storage import RegionDirectory

BATCH_EVERY_MS = 900
_MOST_ROWS = 4


class QueryFailed(Exception):
    """The user's code, as it does now and then."""


class Query:
    """One region's query in one attempt."""

    def __init__(
        self,
        region: RegionId,
        directory: RegionDirectory,
        sink: SinkWriter | UnfencedWriter,
        parallelism: int,
        last_row: int | None,
        scheduler: Scheduler,
        choices: Choices,
        tell: Callable[[str], None],
        name: str,
    ) -> None:
        self.region = region
        self.directory = directory
        self.error: Exception | None = None
        self.is_active = False
        self.is_asked_to_stop = False
        self.batches = 0
        """Committed by this attempt."""
        self.fails_next = False
        self._sink = sink
        self._parallelism = parallelism
        self._last_row = last_row
        self._scheduler = scheduler
        self._choices = choices
        self._tell = tell
        self._name = name
        self.moved = Signal()

    @property
    def is_exhausted(self) -> bool:
        last = self.directory.last_committed
        return (
            self._last_row is not None
            and last is not None
            and self.directory.end_of(last) >= self._last_row
        )

    def run(self) -> Steps[None]:
        self.is_active = True
        try:
            while not self.is_asked_to_stop and not self.is_exhausted:
                yield from self._batch()
                self.moved.fire()
                if not self.is_asked_to_stop:
                    yield self.moved, self._scheduler.now + BATCH_EVERY_MS
        except Exception as error:
            self.error = error
        finally:
            self.is_active = False
        self.moved.fire()

    def ask_to_stop(self) -> None:
        """Lets the batch under way be the last."""
        self.is_asked_to_stop = True
        self.moved.fire()

    def _batch(self) -> Steps[None]:
        directory = self.directory
        last = directory.last_committed
        batch = 0 if last is None else last + 1
        if batch not in directory.offsets:
            start = 0 if last is None else directory.end_of(last)
            end = start + 1 + self._choices.below(_MOST_ROWS)
            if self._last_row is not None:
                end = min(end, self._last_row)
            directory.offsets[batch] = (start, end)
            yield None
        start, end = directory.offsets[batch]
        name = f"{self._name}-{batch}"
        if last is None:
            before = stream.empty_state(self._parallelism, name)
        else:
            before = directory.commits[last]
        after, rows = stream.advance(before, start, end, name)
        if self.fails_next:
            self.fails_next = False
            raise QueryFailed(f"row {start} cannot be counted")
        yield from self._sink.write(batch, rows)
        yield None
        directory.commits[batch] = after
        self.batches += 1
        self._tell(f"commits batch {batch} of {self.region}: rows {start} to {end - 1}")
