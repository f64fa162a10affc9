"""Continues the output of the jobs that a job was started from.

Each job that was started from a restore point stores its lineage in the sink's private
directory, next to its records. So a job that is started later from the same restore point
finds all output that is not part of its own past, without a database.

    <parent>/.<name>.headgate/<job>/<sink>/lineage.json
"""

import json
from collections.abc import Callable, Iterator
from pathlib import PurePath
from uuid import UUID

from jobmanager.core.ids import AttemptNumber, JobId, VertexId
from jobmanager.core.snapshots import manifest as manifests
from jobmanager.core.snapshots.layout import LINEAGE
from jobmanager.core.snapshots.manifest import Ancestor
from taskrunner.core.continuation import Branch, last_kept
from taskrunner.sinks.directory import Guard, SinkDirectory
from taskrunner.sinks.output_files import LOCAL, OutputFiles
from taskrunner.sinks.private_directory import private_directory


def continue_output(
    directory: PurePath,
    job: JobId,
    sink: VertexId,
    lineage: tuple[Ancestor, ...],
    guard_of: Callable[[JobId], Guard],
    files: OutputFiles = LOCAL,
) -> None:
    """Withdraws output that is not part of the job's past, and publishes the rest. May be repeated.

    `guard_of` keeps out the attempts of another job. Raises `OutputLost`.
    """
    private = private_directory(directory, files)
    others = dict(_others(private, sink, files))
    others.pop(job, None)  # an earlier try of this same job
    for other, batch in last_kept(_branches(lineage, sink), others).items():
        if files.names(private / other.hex / sink):
            output = SinkDirectory(
                directory, other, sink, AttemptNumber(0), guard_of(other), files=files
            )
            output.recover(last_kept=batch, last_visible=batch)
    text = json.dumps(manifests.lineage_document(lineage), indent=1)
    files.write(private / job.hex / sink / LINEAGE, text)


def _others(
    private: PurePath, sink: VertexId, files: OutputFiles
) -> Iterator[tuple[JobId, list[Branch]]]:
    for job in files.names(private):
        try:
            text = files.read(private / job / sink / LINEAGE)
        except (FileNotFoundError, NotADirectoryError):
            continue
        yield JobId(UUID(job)), _branches(manifests.lineage_of(json.loads(text)), sink)


def _branches(lineage: tuple[Ancestor, ...], sink: VertexId) -> list[Branch]:
    known = [(one.job, one.batches[sink]) for one in lineage if sink in one.batches]
    return [Branch(job, -1 if batch is None else batch) for job, batch in known]
