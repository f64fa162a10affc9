"""Lets Spark try another graph for a running job, before anything stops."""

from collections.abc import Sequence

from jobmanager.core.errors import NoStateYet
from jobmanager.core.ids import JobId
from jobmanager.core.life.change import Change
from jobmanager.core.snapshots.upgrade import SparkVerdict
from jobmanager.services.directives import RunSettings
from jobmanager.services.state import StateService


class SparkTrials:
    def __init__(self, states: StateService, settings: RunSettings) -> None:
        self._states = states
        self._settings = settings

    async def judge(self, job_id: JobId, change: Change) -> Sequence[SparkVerdict]:
        """Return a verdict for each region; none while the job has no checkpoint to try the graph
        on.
        """
        after = change.after
        try:
            tried = await self._states.try_graph(
                job_id, after.document, after.parallelism, self._settings
            )
        except NoStateYet:
            return []
        return [
            SparkVerdict(
                one.region,
                one.accepted,
                f"vertex {one.vertex}: {one.error}" if one.vertex else one.error,
            )
            for one in tried.regions
        ]
