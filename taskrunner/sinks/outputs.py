"""The list of directories that a job has written to, under any graph it ever had.

An upgrade may name another directory, or another sink. If it is rolled back, the old graph does
not name them, so the list is kept in the job's own directory.
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
    """Records the directories to which the job is about to write."""
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
    """Withdraws what attempts after `last_attempt` wrote to other directories than `outputs`.

    The job continues from the state of `last_attempt`, with these outputs: the later attempts were
    rolled back, and no other code cleans up the directories that only they wrote to.
    """
    for sink, directory in noted_outputs(layout):
        if (sink, directory) not in outputs:
            output = SinkDirectory(directory, job, sink, last_attempt, guard)
            output.withdraw_after(last_attempt)
