"""Triggers the periodic checkpoints that are due."""

from jobmanager.services import batched_checkpoints
from jobmanager.services.clock import Clock
from jobmanager.services.ports.unit_of_work import UnitsOfWork


class CheckpointTimer:
    def __init__(self, units: UnitsOfWork, clock: Clock) -> None:
        self._units = units
        self._clock = clock

    async def run_once(self) -> None:
        await batched_checkpoints.trigger_due(self._units(), self._clock())

    def failed(self) -> None:
        """Nothing to do: the loop keeps nothing between two runs."""
