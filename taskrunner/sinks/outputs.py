"""The list of directories that a job has written to, under any graph it ever had.

An upgrade may name another directory, or another sink. If it is rolled back, the old graph does
not name them, so the list is kept in the job's own directory.
"""

import json
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from jobmanager.core.graph.connectors.files import FilesSink
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.graph.sinks import Sink
from jobmanager.core.ids import AttemptNumber, JobId, VertexId
from jobmanager.core.paths.location import Location, remote_location
from jobmanager.core.snapshots.layout import OUTPUTS
from taskrunner.sinks.directory import Guard, SinkDirectory
from taskrunner.sinks.output_files import FilesOf, Place, local_files, path_of
from taskrunner.sinks.private_directory import (
    is_inside,
    make_private_directory,
    private_directory,
)
from taskrunner.snapshots.layout import JobLayout

Output = tuple[VertexId, Place]
_INSIDE, _BESIDE = "inside", "beside"


def outputs_of(
    graph: JobGraph, sinks: Iterable[VertexId], resolve: Callable[[str], Path]
) -> list[Output]:
    """The directories of the files sinks among `sinks`."""
    found = [graph.vertex(sink) for sink in sinks]
    return [
        (one.id, place_of(one.connector.path, resolve))
        for one in found
        if isinstance(one, Sink) and isinstance(one.connector, FilesSink)
    ]


def place_of(path: str, resolve: Callable[[str], Path]) -> Place:
    """The directory that a field `path` names. `resolve` is asked about directories of this
    machine, and may raise `PathNotAllowed`.
    """
    return remote_location(path) or resolve(path)


class OutputNotMounted(Exception):
    """The volume to which a job has written is not mounted."""


def prepare_outputs(
    layout: JobLayout, outputs: Collection[Output], files_of: FilesOf = local_files
) -> list[Path]:
    """Makes the private directory of each output directory, and returns those of this machine.
    Raises `OutputNotMounted` if an output directory lacks the private directory that an earlier
    attempt used inside it.
    """
    noted = {(one["sink"], one["directory"]): one for one in _document(layout)}
    for sink, directory in outputs:
        known = noted.get((sink, str(directory)), {})
        if known.get("records") == _INSIDE and not _has_records_inside(directory, files_of):
            raise OutputNotMounted(
                f"sink {sink}: the records of the job's output are missing in {directory}, where "
                "earlier attempts wrote them: is the volume mounted? Mount it and restart the job"
            )
    for _, directory in outputs:
        if isinstance(directory, Location):
            make_private_directory(directory.path, files_of(directory))
    mounted = [one for _, one in outputs if isinstance(one, Path)]
    return [make_private_directory(one) for one in mounted]


def note_outputs(
    layout: JobLayout, outputs: Collection[Output], files_of: FilesOf = local_files
) -> None:
    """Records the directories to which the job is about to write."""
    known = _document(layout)
    named = {(one["sink"], one["directory"]) for one in known}
    new = [
        {
            "sink": sink,
            "directory": str(directory),
            "records": _INSIDE if _has_records_inside(directory, files_of) else _BESIDE,
        }
        for sink, directory in dict.fromkeys(outputs)
        if (sink, str(directory)) not in named
    ]
    if new:
        layout.work.write(OUTPUTS, json.dumps([*known, *new], indent=1))


def noted_outputs(layout: JobLayout) -> list[Output]:
    return [(VertexId(one["sink"]), place_of(one["directory"], Path)) for one in _document(layout)]


def _has_records_inside(place: Place, files_of: FilesOf) -> bool:
    directory = path_of(place)
    return is_inside(directory, private_directory(directory, files_of(place)))


def _document(layout: JobLayout) -> list[dict[str, str]]:
    try:
        document: list[dict[str, str]] = json.loads(layout.work.read(OUTPUTS))
    except FileNotFoundError:
        return []
    return document


def withdraw_abandoned(
    layout: JobLayout,
    job: JobId,
    outputs: Collection[Output],
    last_attempt: AttemptNumber,
    guard: Guard,
    files_of: FilesOf = local_files,
) -> None:
    """Withdraws what attempts after `last_attempt` wrote to other directories than `outputs`.

    The job continues from the state of `last_attempt`, with these outputs: the later attempts were
    rolled back, and no other code cleans up the directories that only they wrote to.
    """
    for sink, directory in noted_outputs(layout):
        if (sink, directory) not in outputs:
            path, files = path_of(directory), files_of(directory)
            output = SinkDirectory(path, job, sink, last_attempt, guard, files=files)
            output.withdraw_after(last_attempt)
