"""The thread that publishes held output, so that no barrier waits until its files are joined."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol

from jobmanager.core.ids import RegionId
from taskrunner import logs
from taskrunner.context_thread import ContextThread
from taskrunner.core.attempt import events
from taskrunner.core.attempt.events import Event
from taskrunner.core.attempt.instructions import ShowOutput
from taskrunner.sinks.joiner import BreakOff, JoinBrokenOff
from taskrunner.snapshots.fence import Superseded

log = logs.get("output")


class HeldOutput(Protocol):
    def show_up_to(self, batch: int) -> None:
        """Publishes the output up to a batch that a completed checkpoint covers."""
        ...


@dataclass(frozen=True, slots=True)
class OutputSources:
    """The held output of a prepared attempt."""

    sinks: Mapping[RegionId, Sequence[HeldOutput]]
    join_files: Callable[[RegionId, int, BreakOff], None]
    """Joins small files of a region's held output up to a batch."""
    shown: Callable[[ShowOutput], None]
    """Called when the output of a checkpoint was published."""


class OutputThread(ContextThread):
    """Publishes the output of one completed checkpoint after the other.

    If the output of the next checkpoint waits already, or the attempt is about to end, files are
    published as they are: joining files never makes output later and later.
    """

    def __init__(self, tell: Callable[[Event], None]) -> None:
        super().__init__("output")
        self._tell = tell
        self._to_do: SimpleQueue[ShowOutput | None] = SimpleQueue()
        self._sources: OutputSources | None = None
        self._break_off = BreakOff()

    def can_show(self, sources: OutputSources) -> None:
        self._sources = sources

    def do(self, show: ShowOutput) -> None:
        """Any thread may ask for output to be published."""
        self._to_do.put(show)

    def join_no_more(self) -> None:
        """Ends the join that is under way, and publishes all output as it is from now on. Any
        thread may ask for it.
        """
        self._break_off.ask()

    def end(self, *, waits: bool) -> None:
        """Returns when all output that was asked for is published; with `waits=False` at once."""
        self._to_do.put(None)
        if not waits:
            self.join_no_more()
        elif self.is_alive():
            self.join()

    def work(self) -> None:
        while (show := self._to_do.get()) is not None:
            self._tell(self._show(show))

    def _show(self, show: ShowOutput) -> Event:
        sources = self._sources
        assert sources is not None, "nothing is prepared yet"
        batches = {region: show.batches.get(region) for region in sources.sinks}
        known = {region: batch for region, batch in batches.items() if batch is not None}
        if self._to_do.empty():
            for region, batch in known.items():
                self._join(sources, region, batch)
        try:
            for region, batch in known.items():
                for sink in sources.sinks[region]:
                    sink.show_up_to(batch)
        except Superseded as error:
            return events.Replaced(str(error))
        except Exception as error:
            log.error("output_not_shown", checkpoint=show.checkpoint, exc_info=error)
            return events.OutputNotShown(show.checkpoint, f"{type(error).__name__}: {error}")
        sources.shown(show)
        return events.OutputShown(show.checkpoint)

    def _join(self, sources: OutputSources, region: RegionId, batch: int) -> None:
        """Files that cannot be joined are published as they are."""
        try:
            self._break_off.check()
            sources.join_files(region, batch, self._break_off)
        except JoinBrokenOff:
            log.info("joins_broken_off", region=region)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"[:2000]
            log.warning("files_not_joined", region=region, up_to_batch=batch, reason=reason)
