"""Measures how a runner's time goes while it answers a barrier."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from jobmanager.core.ids import RegionId
from jobmanager.core.life.checkpoint import BarrierTimes
from taskrunner.core.attempt.events import BatchesOfRegion


@dataclass(slots=True)
class BarrierClock:
    """The times of one barrier after the other, in seconds of a clock that never steps."""

    _begun: float = 0.0
    _waited_ms: dict[str, int] = field(default_factory=dict)

    def begin(self, now: float) -> None:
        """The batches of the queries are watched from now on."""
        self._begun, self._waited_ms = now, {}

    def see(self, regions: Mapping[RegionId, BatchesOfRegion], now: float) -> None:
        for region, one in regions.items():
            if one.has_reached(one.begun):
                self._waited_ms.setdefault(region, _ms(now - self._begun))

    def snapshot_taken(self, begun: float, now: float) -> BarrierTimes:
        """The snapshot that began at `begun` is durable. The next barrier may be that of a stop,
        for which no batches are watched.
        """
        waited, self._waited_ms = self._waited_ms, {}
        return BarrierTimes(waited, _ms(now - begun))


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
