"""Decides which output a job that continues other jobs' output has to withdraw.

A: 0 1 2 3 4 5            Batch numbers continue from a job to the one that was started
         └▶ B: 4 5 6      from it. A job that starts again from A at 3 keeps A up to 3,
         └▶ C: 4 …        and withdraws the rest of A and all of B.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jobmanager.core.ids import JobId


@dataclass(frozen=True, slots=True)
class Branch:
    """A job that the state came through, and the last of its batches that is part of the state."""

    job: JobId
    batch: int
    """-1: none."""


class OutputLost(Exception):
    """Output that the job would continue was withdrawn by a job that branched off earlier."""


def last_kept(
    lineage: Sequence[Branch], others: Mapping[JobId, Sequence[Branch]]
) -> dict[JobId, int]:
    """Maps each job that wrote to the same sink to its last batch whose output stays.

    `lineage` is that of the starting job, the oldest job first; `others` are the lineages of the
    jobs that were started on the same sink. Raises `OutputLost`.
    """
    kept = {branch.job: branch.batch for branch in lineage}
    for job, branches in others.items():
        fork = _fork(lineage, branches)
        if job in kept or fork is None:
            continue
        mine, other = fork
        if other.batch < mine.batch:
            raise OutputLost(
                f"job {job} continued from batch {other.batch} of job {mine.job} and withdrew the "
                f"output after it, so the output up to batch {mine.batch} no longer exists: "
                "give the sink another path"
            )
        kept[job] = mine.batch
    return kept


def _fork(mine: Sequence[Branch], other: Sequence[Branch]) -> tuple[Branch, Branch] | None:
    """Where two jobs branched: the last job that both descend from."""
    theirs = {branch.job: branch for branch in other}
    return next(((one, theirs[one.job]) for one in reversed(mine) if one.job in theirs), None)
