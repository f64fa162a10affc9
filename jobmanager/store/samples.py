"""Samples in Postgres: taken every few seconds, summed up as they age, read in bins."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Select, cast, delete, func, insert, literal, select, text
from sqlalchemy.dialects.postgresql import INTERVAL
from sqlalchemy.ext.asyncio import AsyncSession

from jobmanager.core.ids import JobId
from jobmanager.core.sample import PHASES, Sample
from jobmanager.services.ports.figures import SeriesPoint
from jobmanager.store.tables import SampleRow

_BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
"""The time from which bins are counted."""
_TIMES = tuple(PHASES.values())
_SUMMED = ("span_ms", "input_rows", "output_rows", "batches", "busy_ms", *_TIMES)
_LARGEST = ("state_rows", "state_bytes", "lag_ms", "backlog_rows")

# Regions are parts of a job that run at the same time: their rates add up.
_INPUT_RATES = text("""
SELECT job_id, start, sum(rate) FROM (
    SELECT job_id, date_bin(CAST(:step AS interval), at, :since) AS start,
           CAST(1000.0 * sum(input_rows) AS double precision) / sum(span_ms) AS rate
    FROM samples WHERE job_id = ANY(:jobs) AND at >= :since
    GROUP BY job_id, region, start
) AS per_region
GROUP BY job_id, start ORDER BY job_id, start
""")


class PostgresSamples:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def add(self, samples: Iterable[tuple[JobId, str, Sample]]) -> None:
        rows = [
            {"job_id": job_id, "region": region, "resolution_s": 0, **_values(sample)}
            for job_id, region, sample in samples
        ]
        if rows:
            await self._session.execute(insert(SampleRow), rows)

    async def series(
        self, job_id: JobId, since: datetime, until: datetime, step: timedelta
    ) -> Mapping[str, Sequence[SeriesPoint]]:
        """Return samples by region, in bins of `step` from `since` on; empty bins are left out."""
        start = func.date_bin(_interval(step), SampleRow.at, literal(since)).label("start")
        rows = await self._session.execute(
            _summed_up(SampleRow.region, start)
            .where(SampleRow.job_id == job_id, SampleRow.at >= since, SampleRow.at < until)
            .group_by(SampleRow.region, start)
            .order_by(SampleRow.region, start)
        )
        found: dict[str, list[SeriesPoint]] = defaultdict(list)
        for row in rows.mappings():
            values = {one.name: row[one.name] for one in fields(SeriesPoint) if one.name in row}
            phases = {name: int(row[name]) for name in _TIMES}
            found[row["region"]].append(SeriesPoint(at=row["start"], phases_ms=phases, **values))
        return found

    async def input_rates(
        self, jobs: Sequence[JobId], since: datetime, step: timedelta
    ) -> Mapping[JobId, Sequence[tuple[datetime, float]]]:
        """Return the rows a second that each job read, in bins."""
        asked = {"jobs": list(jobs), "since": since, "step": step}
        rows = await self._session.execute(_INPUT_RATES, asked)
        found: dict[JobId, list[tuple[datetime, float]]] = defaultdict(list)
        for job_id, at, rate in rows:
            found[JobId(job_id)].append((at, float(rate)))
        return found

    async def sum_up(self, finer_s: int, coarser_s: int, before: datetime) -> int:
        """Replace finer samples that end before `before`, which is the end of a bin, by bins of
        `coarser_s` seconds; return how many were replaced.
        """
        start = func.date_bin(_interval(timedelta(seconds=coarser_s)), SampleRow.at, _BEGINNING)
        old = (SampleRow.resolution_s == finer_s, SampleRow.at < before)
        columns = ["job_id", "region", "at", "resolution_s", *_SUMMED, *_LARGEST]
        summed = (
            select(
                SampleRow.job_id,
                SampleRow.region,
                start,
                literal(coarser_s),
                *(func.sum(getattr(SampleRow, name)) for name in _SUMMED),
                *(func.max(getattr(SampleRow, name)) for name in _LARGEST),
            )
            .where(*old)
            .group_by(SampleRow.job_id, SampleRow.region, start)
        )
        await self._session.execute(insert(SampleRow).from_select(columns, summed))
        gone = await self._session.execute(delete(SampleRow).where(*old).returning(SampleRow.at))
        return len(gone.all())

    async def prune(self, before: datetime, resolution_s: int) -> None:
        await self._session.execute(
            delete(SampleRow).where(SampleRow.resolution_s == resolution_s, SampleRow.at < before)
        )


def _values(sample: Sample) -> dict[str, Any]:
    kept = [one.name for one in fields(Sample) if one.name != "phases_ms"]
    values = {name: getattr(sample, name) for name in kept}
    return values | {name: sample.phases_ms.get(name, 0) for name in _TIMES}


def _summed_up(*by: Any) -> Select[Any]:
    return select(
        *by,
        *(func.sum(getattr(SampleRow, name)).label(name) for name in _SUMMED),
        *(func.max(getattr(SampleRow, name)).label(name) for name in _LARGEST),
    )


def _interval(step: timedelta) -> Any:
    return cast(literal(step), INTERVAL)
