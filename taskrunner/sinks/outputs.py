"""Which directories a job has written to, under any graph it ever had.

An upgrade may name another directory, or another sink. If it is rolled back, the graph
before it knows nothing of them, so the job's own directory has to.
"""

import json
from collections.abc import Collection
from pathlib import Path

from jobmanager.core.ids import AttemptNumber, JobId, VertexId
from jobmanager.core.snapshots.layout import OUTPUTS
from taskrunner.sinks.directory import Guard, SinkDirectory
from taskrunner.snapshots.layout import JobLayout

Output = tuple[VertexId, Path]


def note_outputs(layout: JobLayout, outputs: Collection[Output]) -> None:
    """Writes down where the job is about to write."""
    known = noted_outputs(layout)
    if set(outputs) <= set(known):
        return
    document = [
        {"sink": sink, "directory": str(directory)}
        for sink, directory in dict.fromkeys([*known, *outputs])
    ]
    layout.work.write(OUTPUTS, json.dumps(document, indent=1))


def noted_outputs(layout: JobLayout) -> list[Output]:
    try:
        document = json.loads(layout.work.read(OUTPUTS))
    except FileNotFoundError:
        return []
    return [(VertexId(one["sink"]), Path(one["directory"])) for one in document]


def withdraw_abandoned(
    layout: JobLayout,
    job: JobId,
    outputs: Collection[Output],
    last_attempt: AttemptNumber,
    guard: Guard,
) -> None:
    """Withdraws what attempts after `last_attempt` wrote elsewhere than to `outputs`.

    The job goes on from what `last_attempt` left, with these outputs: those attempts were
    rolled back, and where they wrote nobody else will put right.
    """
    for sink, directory in noted_outputs(layout):
        if (sink, directory) not in outputs:
            output = SinkDirectory(directory, job, sink, last_attempt, guard)
            output.withdraw_after(last_attempt)
