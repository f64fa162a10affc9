"""Decides what an attempt does with the batches of a sink that publishes by transactions.

Rows of a batch are staged in the job's directory, and a record decides the batch, as in a files
sink. Then one transaction writes the rows, and with them a *marker*: the number of batches that are
published. So the marker says, whatever was killed, which batches readers can see:

    (nothing) ──rows staged, record created──▶ DECIDED ──transaction with marker──▶ PUBLISHED

    marker = n  ⇔  every batch before n is published, and no batch from n on

What was published cannot be taken back. An attempt that is to start before the marker is refused,
unless the sink allows repeated rows; then the marker goes back too.
"""

from collections.abc import Collection
from dataclasses import dataclass

from jobmanager.core.graph.connectors.kafka import Rewind


class RewindRefused(Exception):
    """The state to restore is older than the output that readers already have."""


class MarkerLost(Exception):
    """Kafka no longer knows how much of the output was published."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where a sink's output continues."""

    published: int
    """The number of batches that are published: the marker to go on from."""
    must_reset: bool = False
    """Whether the marker has to be moved back to `published` first."""


def start(
    sink: str, marker: int | None, noted: int | None, last_kept: int, rewind: Rewind
) -> Start:
    """Decides where the output continues, after older attempts were fenced.

    `marker` is what Kafka says, None: nothing; `noted` the last marker that the job's directory
    tells of; `last_kept` the last batch that is part of the restored state, or is run again with
    the same rows. Raises `RewindRefused` or `MarkerLost`.
    """
    published = max(marker or 0, noted or 0)
    if published > last_kept + 1:
        if rewind is Rewind.REPEAT:
            return Start(last_kept + 1, must_reset=True)
        raise RewindRefused(
            f"sink {sink}: the restored state ends {_after(last_kept)}, but batches up to "
            f"{published - 1} are published, and Kafka cannot take records back. Start from a "
            "newer savepoint or checkpoint, write to another topic, or set rewind: repeat to "
            "publish the rows after the restore point a second time"
        )
    if published != (marker or 0):
        raise MarkerLost(
            f"sink {sink}: {noted} batches were published, but Kafka's record of it, the committed "
            f"offset of the sink's group, {_said(marker)}: it expired, or was deleted or changed. "
            "Whether the next batch was published cannot be found out: set the offset of the group "
            f"to {noted} if you know that nothing was published since, or start another job"
        )
    return Start(published)


def due(decided: Collection[int], published: int, visible: int) -> list[int]:
    """The decided batches that are to be published now, in order; `visible`: the last batch that
    readers may see.
    """
    return sorted(batch for batch in decided if published <= batch <= visible)


def leftovers(decided: Collection[int], published: int, last_kept: int) -> list[int]:
    """Decided batches whose staged rows are not needed: published already, or not part of the
    restored state, so that other rows will get their number.
    """
    return sorted(batch for batch in decided if batch < published or batch > last_kept)


def _said(marker: int | None) -> str:
    return "is missing" if marker is None else f"says {marker}"


def _after(batch: int) -> str:
    return "before the first batch" if batch < 0 else f"with batch {batch}"
