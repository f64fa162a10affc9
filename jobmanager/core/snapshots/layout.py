"""The names and paths of everything in storage. No other module builds such paths.

Every function here returns a location: a relative path with forward slashes, below the directory
that the section of this module names. Both programs join a location to a directory or a URI, and
pass it to the port in `jobmanager.files`.

    <root>/
        jobs/<job>/                       a job's working directory, see below
        savepoints/<name>/                savepoints, unless the user names another place
        artifacts/<id>/<name>             the contents of artifacts, written once
        artifacts/.draft-<token>/         the same before it is complete
        inspector/                        scratch of the processes that read state
        data/                             users' files, where no data root is configured

    <root>/jobs/<job>/                    on a file system: Spark works in it
        epoch, epoch.lock                 the attempt that may write
        pool.lock                         held around any change of the pool or the manifests
        lineage.json                      the jobs it was started from, if any: its lineage
        outputs.json                      all directories it ever wrote to
        tables.json                       all tables it ever wrote to, and graphs that name them
        attempts/<n>/<region>/            Spark checkpoint directory of that attempt
        attempts/<n>/.<region>.clone/     the same before it is complete
        attempts/<n>/<region>.restored.json  the state it was cloned from; written before the
                                          directory is complete and before output is withdrawn
        attempts/<n>/<region>.drain       the batch after which a stop began to drain
        attempts/<n>/.rounds/<loop>/      in a batch job: results of the rounds of a loop
        attempts/<n>/result.json          how the attempt ended
        transactions/<sink>/              staged rows of a sink that publishes by transactions
        schemas/<vertex>.json             schemas that a source asked a registry for
        inputs/<vertex>/rows.json         the rows of a `table` source, the same for all attempts

    <root>/jobs/<job>/                    in the same directory, or below a root of its own in
                                          any storage that fsspec reaches
        pool/<region>/…~<sha256>          immutable files that checkpoints share, by content
        checkpoints/<n>/manifest.json     written last
        checkpoints/<n>/<region>/…        on a file system: the small files of that checkpoint

    <parent>/<name>/                      a savepoint, anywhere
        manifest.json                     written last
        <region>/…                        every file of the region's Spark checkpoint directory
    <parent>/.<name>.draft/               on a file system, while the savepoint is written

The names inside a Spark checkpoint directory are Spark's (`taskrunner.snapshots.spark_log`), and a
files sink keeps its records beside the user's files (`taskrunner.sinks.directory`): neither is part
of this storage.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import PurePosixPath

from jobmanager.core.ids import (
    ArtifactId,
    AttemptNumber,
    CheckpointNumber,
    JobId,
    RegionId,
    SavepointId,
    VertexId,
)

# ── below the root of all storage ────────────────────────────────────────────

JOBS = "jobs"
SAVEPOINTS = "savepoints"
ARTIFACTS = "artifacts"
INSPECTOR = "inspector"
DATA = "data"

_JOB_NAME = re.compile(r"[0-9a-f]{32}")


def job_directory(job: JobId) -> str:
    return named_job_directory(job.hex)


def named_job_directory(name: str) -> str:
    """Return the same for a directory that was found below `JOBS` with this name."""
    return f"{JOBS}/{name}"


JOB_DEPTH = 2
"""How many levels below the root a job's directory is."""


def is_job_name(name: str) -> bool:
    """Whether a directory below `JOBS` has a name as a job's directory has."""
    return _JOB_NAME.fullmatch(name) is not None


def artifact_directory(artifact: ArtifactId) -> str:
    return f"{ARTIFACTS}/{artifact}"


def artifact_draft(token: str) -> str:
    """Return where an artifact is written before it is complete. `token` is unique."""
    return f"{ARTIFACTS}/.draft-{token}"


# ── below a job's working directory, which is on a file system ───────────────

EPOCH = "epoch"
EPOCH_LOCK = "epoch.lock"
POOL_LOCK = "pool.lock"
DISCARDED = "discarded.json"
LINEAGE = "lineage.json"
OUTPUTS = "outputs.json"
TABLES = "tables.json"
ATTEMPTS = "attempts"
_INPUTS = "inputs"
_TRANSACTIONS = "transactions"
_ROWS = "rows.json"
_SCHEMAS = "schemas"


def attempt(number: AttemptNumber | int) -> str:
    return f"{ATTEMPTS}/{number}"


def attempt_numbers(names: Iterable[str]) -> list[AttemptNumber]:
    """Return the attempt numbers among the names in `ATTEMPTS`."""
    return sorted(AttemptNumber(int(name)) for name in names if name.isdigit())


def result(number: AttemptNumber) -> str:
    return f"{attempt(number)}/result.json"


def spark_checkpoint_dir(number: AttemptNumber, region: RegionId) -> str:
    return f"{attempt(number)}/{region}"


def clone_draft(number: AttemptNumber, region: RegionId) -> str:
    """Return a region's Spark checkpoint directory before it is complete."""
    return f"{attempt(number)}/.{region}.clone"


def restored(number: AttemptNumber, region: RegionId) -> str:
    """The state from which a region's Spark checkpoint directory was cloned."""
    return f"{attempt(number)}/{region}.restored.json"


def drain(number: AttemptNumber, region: RegionId) -> str:
    return f"{attempt(number)}/{region}.drain"


def rounds(number: AttemptNumber) -> str:
    """Return the directory of intermediate results of a batch job's loops."""
    return f"{attempt(number)}/.rounds"


def transactions(sink: VertexId) -> str:
    """Return the directory of rows that are staged for a transaction, and of their records."""
    return f"{_TRANSACTIONS}/{sink}"


def schemas(vertex: VertexId) -> str:
    """Return the file of the schemas that a source asked a registry for while it ran."""
    return f"{_SCHEMAS}/{vertex}.json"


def rows_directory(vertex: VertexId) -> str:
    """Return what Spark reads for a `table` source: a directory with one file."""
    return f"{_INPUTS}/{vertex}"


def rows_file(vertex: VertexId) -> str:
    return f"{rows_directory(vertex)}/{_ROWS}"


def rows_uri_of(job: JobId) -> re.Pattern[str]:
    """Return a pattern that finds the `file:` URI of any rows file of a job, in quotation marks.

    Group 1 is the location below the job's directory.
    """
    home = re.escape(job_directory(job))
    return re.compile(rf'"file:[^"]*/{home}/({_INPUTS}/[^"/]+/{re.escape(_ROWS)})"')


# ── below a job's directory of snapshots ─────────────────────────────────────

POOL = "pool"
CHECKPOINTS = "checkpoints"
MANIFEST = "manifest.json"


def pooled(region: RegionId, path: str) -> str:
    """Return where the pool keeps the file `path` of the region's Spark checkpoint directory."""
    return f"{POOL}/{region}/{path}"


def pooled_places(location: str, sha256: str) -> Iterator[str]:
    """Yield possible locations of a file in the pool; the first that is free, or holds the same
    bytes, is used. Two attempts never use one location for different contents.
    """
    yield f"{location}~{sha256[:32]}"
    yield from (f"{location}~{sha256[:32]}~{number}" for number in count(2))


def is_pooled(location: str) -> bool:
    return location.startswith(f"{POOL}/")


def checkpoint_directory(number: CheckpointNumber | int) -> str:
    """Return the directory of a checkpoint's own files."""
    return f"{CHECKPOINTS}/{number}"


def checkpoint_file(number: CheckpointNumber, region: RegionId, path: str) -> str:
    return f"{checkpoint_directory(number)}/{region}/{path}"


def checkpoint_manifest(number: CheckpointNumber | int) -> str:
    return manifest_in(checkpoint_directory(number))


def manifest_in(directory: str) -> str:
    """Return the manifest of a checkpoint or a savepoint, given its directory."""
    return f"{directory}/{MANIFEST}"


def is_checkpoint_manifest(location: str) -> bool:
    """Whether this is the location of a checkpoint's manifest."""
    parts = PurePosixPath(location).parts
    return len(parts) == 3 and parts[0] == CHECKPOINTS and parts[2] == MANIFEST


def manifest_directory(location: str) -> str:
    """Return the directory of a manifest: of a checkpoint or, by its URI, a savepoint."""
    return location.removesuffix(f"/{MANIFEST}")


def checkpoint_of(location: str) -> CheckpointNumber | None:
    """Return the checkpoint in whose directory a file below `CHECKPOINTS` is; None: none."""
    parts = PurePosixPath(location).parts
    if len(parts) > 1 and parts[1].isdigit():
        return CheckpointNumber(int(parts[1]))
    return None


def checkpoint_numbers(names: Iterable[str]) -> set[CheckpointNumber]:
    """Return the checkpoint numbers among the names in `CHECKPOINTS`."""
    return {CheckpointNumber(int(name)) for name in names if name.isdigit()}


# ── savepoints ───────────────────────────────────────────────────────────────


def savepoint_name(job: JobId, savepoint: SavepointId) -> str:
    """Return a savepoint's name as in Flink: beginning of the job's id, then savepoint's id."""
    return f"savepoint-{job.hex[:6]}-{savepoint.hex[:12]}"


def adopted_savepoint_name(savepoint: SavepointId) -> str:
    """Return the name of a savepoint that was adopted from a plain Spark query."""
    return f"savepoint-adopted-{savepoint.hex[:12]}"


def savepoint_file(region: RegionId, path: str) -> str:
    """Return the location of a file below the savepoint's directory."""
    return f"{region}/{path}"


def draft_name(directory: str) -> str:
    """Return the name of a savepoint's directory, on a file system, while it is written."""
    return f".{directory}.draft"


def name_of_draft(draft: str) -> str | None:
    """Return the final directory of a draft; None: this is not a draft."""
    if draft.startswith(".") and draft.endswith(".draft"):
        return draft[1 : -len(".draft")]
    return None


# ── beside any file ──────────────────────────────────────────────────────────


def temporary_name(name: str, token: str) -> str:
    """Return the name of a file until it is completely on disk. `token` is unique."""
    return f".{name}.{token}.tmp"


def lock_holder(location: str, number: int) -> str:
    """Return the file that the n-th holder of a lock creates, in storage without own locks."""
    return f"{location}.{number}"


def lock_release(location: str, number: int) -> str:
    """Return the file that says that the n-th holder has released the lock."""
    return f"{lock_holder(location, number)}.released"


def lock_number(location: str, name: str) -> int | None:
    """Return the number in the name of such a file; None: it is not a file of this lock."""
    found = re.fullmatch(rf"{re.escape(_name(location))}\.(\d+)(\.released)?", name)
    return int(found[1]) if found else None


def directory_of(location: str) -> str:
    return location.rpartition("/")[0]


def beside(location: str, name: str) -> str:
    """Return the location of another name in the same directory."""
    directory = directory_of(location)
    return f"{directory}/{name}" if directory else name


def _name(location: str) -> str:
    return location.rpartition("/")[2]
