"""A job's restore point: the savepoint (its own or another job's), or the checkpoint of another
job, that it was started from, or last rescaled or upgraded from.

The restore point is only read, and every byte of it is checked before anything starts.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import JobId, RegionId
from jobmanager.core.paths.allowed_paths import PathRules
from jobmanager.core.snapshots import fit
from jobmanager.core.snapshots import layout as storage_layout
from jobmanager.core.snapshots import manifest as manifests
from jobmanager.core.snapshots.manifest import Ancestor, Manifest, SnapshotFile
from jobmanager.core.snapshots.storage_uri import is_local, local_path
from jobmanager.files.open_storage import open_storage
from jobmanager.files.resolved_places import file_fault, place_fault
from jobmanager.files.storage_port import Storage, StoreFailed, damage
from jobmanager.protocol.messages import RestorePointMessage
from taskrunner.core.restore import SavedRegion
from taskrunner.snapshots import durable, state_archives
from taskrunner.snapshots.layout import JobLayout
from taskrunner.snapshots.spark_log import named_files


class RestoreRefused(Exception):
    """The job cannot start from its restore point, which is damaged or does not fit."""


@dataclass(frozen=True, slots=True)
class RestoreSource:
    """A restore point that is complete and fits the graph."""

    name: str
    files: Storage
    manifest: Manifest
    graph: JobGraph
    """The graph of the job that starts from the restore point."""
    rules: PathRules | None = None
    """What the job may read; None: anything."""

    def region(self, region: RegionId) -> SavedRegion:
        known = self.manifest.regions.get(region)
        return SavedRegion(self.name, known is not None, known.batch if known else None)

    def clone(self, region: RegionId, target: Path, layout: JobLayout) -> None:
        """Rebuilds the region's Spark checkpoint directory for the job that starts."""
        for file in self._wanted(region):
            copy = target / file.path
            if file.path == "metadata":
                # a new query id: Spark does not run two queries with the same id at once
                durable.write(copy, json.dumps({"id": str(uuid4())}))
            elif file.path.startswith("sources/"):
                text = self.files.read(file.location).decode()
                durable.write(copy, self._allowed(_moved(text, self.job, layout), layout))
            else:
                self.files.fetch(file, copy)

    def _allowed(self, log: str, layout: JobLayout) -> str:
        """A source's log. It may name files for a batch that is not committed yet, which Spark
        would read. Raises `RestoreRefused` for a file that the graph could not name.
        """
        if self.rules is not None:
            home = f"{layout.work.uri}/"
            for path in named_files(log):
                if not path.startswith(home) and (fault := place_fault(self.rules.graphs, path)):
                    raise RestoreRefused(f"{self.name} cannot be restored: an input file: {fault}")
        return log

    @property
    def job(self) -> JobId:
        return self.manifest.job

    def _wanted(self, region: RegionId) -> Iterator[SnapshotFile]:
        known = self.manifest.regions[region]
        has_no_state = fit.drops_state(known, self.graph, region)
        for file in known.files:
            if not (has_no_state and file.path.startswith("state/")):
                yield file


def open_restore_source(
    point: RestorePointMessage, graph: JobGraph, rules: PathRules | None = None
) -> RestoreSource:
    """Reads and checks a restore point. Raises `RestoreRefused` with everything that is wrong."""
    files = open_storage(point.root)
    where = f"{files.uri}/{point.manifest}"
    try:
        manifest = manifests.from_json(files.read(point.manifest).decode())
    except FileNotFoundError:
        raise RestoreRefused(f"{point.name} cannot be restored: {where} is missing") from None
    except StoreFailed:
        raise  # the storage may answer the next attempt
    except (OSError, UnicodeError, manifests.InvalidManifest) as error:
        raise RestoreRefused(f"{point.name} cannot be restored: {where}: {error}") from error
    fitting = fit.fit(fit.state_in(manifest), graph)
    faults = fitting.faults(allow_non_restored_state=point.allow_non_restored_state)
    found = [one.message for one in faults]
    found = found or list(_links_outside(files, manifest, rules)) or list(_damage(files, manifest))
    if found:
        more = f" (and {len(found) - 5} more)" if len(found) > 5 else ""
        raise RestoreRefused(f"{point.name} cannot be restored: {'; '.join(found[:5])}{more}")
    return RestoreSource(point.name, files, manifest, graph, rules)


def write_lineage(layout: JobLayout, job: JobId, origin: RestoreSource) -> None:
    """Stores the job's lineage, because the restore point may be deleted later.

    A job that continues from its own state keeps its lineage.
    """
    if origin.job == job and origin.manifest.savepoint is None:
        return  # a checkpoint does not name its ancestors
    ancestors = tuple(one for one in origin.manifest.lineage if one.job != job)
    text = json.dumps(manifests.lineage_document(ancestors), indent=1)
    layout.work.write(storage_layout.LINEAGE, text)


def read_lineage(layout: JobLayout) -> tuple[Ancestor, ...]:
    """The jobs that this one descends from; empty: it was started from scratch."""
    try:
        text = layout.work.read(storage_layout.LINEAGE)
    except FileNotFoundError:
        return ()
    return manifests.lineage_of(json.loads(text))


def _links_outside(files: Storage, manifest: Manifest, rules: PathRules | None) -> Iterator[str]:
    """Each file that is a link to somewhere that is not allowed."""
    if rules is None or not is_local(files.uri):
        return
    for location in sorted({file.location for file in manifest.files()}):
        if fault := file_fault(rules.snapshots, local_path(files.uri) / location):
            yield f"{location}: {fault}"


def _damage(files: Storage, manifest: Manifest) -> Iterator[str]:
    """Each file that is not what the manifest says, or that Spark must not read, by its name."""
    for file in {file.location: file for file in manifest.files()}.values():
        fault = damage(files, file)
        if fault is None and state_archives.is_archive(file.path):
            fault = state_archives.archive_fault(files.read(file.location))
        if fault:
            yield f"{file.location} {fault}"


def _moved(log: str, job: JobId, layout: JobLayout) -> str:
    """A source's log with the paths of `table` rows changed to those of the new job.

    Spark knows an input file by its path: with the old paths it would read rows again, and look
    for unread rows in the old job's directory.
    """
    home = layout.work.uri
    return storage_layout.rows_uri_of(job).sub(lambda found: f'"{home}/{found[1]}"', log)
