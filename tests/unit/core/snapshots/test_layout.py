"""Names in storage: what stands where, and that no other module knows a name."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from jobmanager.core.ids import (
    ArtifactId,
    AttemptNumber,
    CheckpointNumber,
    JobId,
    RegionId,
    SavepointId,
    VertexId,
)
from jobmanager.core.snapshots import layout
from jobmanager.core.snapshots.storage_uri import UnsupportedStorage, parent_and_name

REPOSITORY = Path(__file__).parents[4]
BUILDER = REPOSITORY / "jobmanager" / "core" / "snapshots" / "layout.py"
CLIENT = REPOSITORY / "jobmanager" / "client"
"""It knows the paths of the REST interface, and reaches no storage."""
JOB = JobId(UUID(int=7))
REGION = RegionId("out")
ATTEMPT = AttemptNumber(3)

OURS = re.compile(
    r"\b(manifest|lineage|outputs|result|rows|restored)\.json|\b(pool|epoch)\.lock|\.(drain|draft|clone|rounds)\b"
    r"|\bsavepoint-"
)
"""Names that mean nothing else, wherever they stand."""
DIRECTORIES = {
    layout.JOBS,
    layout.SAVEPOINTS,
    layout.ARTIFACTS,
    layout.INSPECTOR,
    layout.EPOCH,
    layout.ATTEMPTS,
    layout.POOL,
    layout.CHECKPOINTS,
    "inputs",
}
"""Words that mean other things too: they count where a path is built."""
BUILDS_PATHS = re.compile(
    r"below|joinpath|Path|PurePosixPath|with_name|inside|list_files|list_names|read|write|create"
    r"|rename|delete|delete_directory|lock|break_lock|digest|keep"
)
ALLOWED = {
    # the server's own directory on its machine, which is not storage
    ("jobmanager/server.py", "inspector"),
    # of Flink's REST interface
    ("jobmanager/api/flink/savepoints.py", "savepoint-path"),
    ("jobmanager/api/client_operations.py", "POST /v1/savepoint-disposal"),
    ("jobmanager/api/flink/savepoints.py", "/savepoint-disposal"),
    ("jobmanager/api/flink/savepoints.py", "/savepoint-disposal/{triggerid}"),
    ("jobmanager/core/access/route_rules.py", "/savepoint-disposal"),
    ("jobmanager/core/access/route_rules.py", "/savepoint-disposal/{triggerid}"),
}


def test_the_names_on_disk_are_those_of_every_release() -> None:
    """Storage outlives a release: a name that changes here is state that is not found."""
    assert layout.job_directory(JOB) == f"jobs/{JOB.hex}"
    assert layout.artifact_directory(ArtifactId("ab")) == "artifacts/ab"
    assert layout.artifact_draft("t") == "artifacts/.draft-t"
    assert (layout.EPOCH, layout.EPOCH_LOCK, layout.POOL_LOCK) == (
        "epoch",
        "epoch.lock",
        "pool.lock",
    )
    assert (layout.LINEAGE, layout.OUTPUTS) == ("lineage.json", "outputs.json")
    assert layout.TABLES == "tables.json"
    assert layout.result(ATTEMPT) == "attempts/3/result.json"
    assert layout.spark_checkpoint_dir(ATTEMPT, REGION) == "attempts/3/out"
    assert layout.clone_draft(ATTEMPT, REGION) == "attempts/3/.out.clone"
    assert layout.restored(ATTEMPT, REGION) == "attempts/3/out.restored.json"
    assert layout.drain(ATTEMPT, REGION) == "attempts/3/out.drain"
    assert layout.rounds(ATTEMPT) == "attempts/3/.rounds"
    assert layout.rows_file(VertexId("bids")) == "inputs/bids/rows.json"
    assert layout.pooled(REGION, "state/0/0/1.zip") == "pool/out/state/0/0/1.zip"
    assert layout.checkpoint_manifest(5) == "checkpoints/5/manifest.json"
    assert layout.checkpoint_file(CheckpointNumber(5), REGION, "metadata") == (
        "checkpoints/5/out/metadata"
    )
    savepoint = SavepointId(UUID(int=9))
    assert layout.savepoint_name(JOB, savepoint) == "savepoint-000000-000000000000"
    assert layout.adopted_savepoint_name(savepoint) == "savepoint-adopted-000000000000"
    assert layout.draft_name("savepoint-1") == ".savepoint-1.draft"


def test_what_is_built_is_recognised_again() -> None:
    assert layout.is_job_name(JOB.hex)
    assert not layout.is_job_name("x")
    assert layout.is_pooled(layout.pooled(REGION, "x"))
    assert layout.is_checkpoint_manifest(layout.checkpoint_manifest(5))
    assert not layout.is_checkpoint_manifest("checkpoints/5/out/manifest.json")
    assert layout.checkpoint_of(layout.checkpoint_file(CheckpointNumber(5), REGION, "x")) == 5
    assert layout.checkpoint_of("checkpoints/x/y") is None
    assert layout.manifest_directory(layout.checkpoint_manifest(5)) == "checkpoints/5"
    assert layout.name_of_draft(layout.draft_name("x")) == "x"
    assert layout.name_of_draft("x") is None
    assert layout.attempt_numbers({"10", "9", "x"}) == [9, 10]
    assert layout.checkpoint_numbers({"10", "x"}) == {10}
    rows = f'"file:///s/{layout.job_directory(JOB)}/{layout.rows_file(VertexId("a"))}"'
    found = layout.rows_uri_of(JOB).fullmatch(rows)
    assert found is not None
    assert found[1] == layout.rows_file(VertexId("a"))
    assert layout.rows_uri_of(JobId(UUID(int=8))).search(rows) is None


def test_the_files_of_a_lock_are_told_from_those_of_others() -> None:
    holder, release = layout.lock_holder("a/pool.lock", 7), layout.lock_release("a/pool.lock", 7)

    assert [layout.lock_number("a/pool.lock", one[2:]) for one in (holder, release)] == [7, 7]
    assert layout.lock_number("a/pool.lock", "pool.lock") is None
    assert layout.lock_number("a/pool.lock", "epoch.lock.7") is None
    assert layout.beside("a/pool.lock", "x") == "a/x"
    assert layout.beside("pool.lock", "x") == "x"


def test_a_savepoints_place_is_its_parent_and_its_name() -> None:
    assert parent_and_name("file:///s/a%20b/x/") == ("file:///s/a%20b", "x")
    assert parent_and_name("/s/x") == ("file:///s", "x")
    assert parent_and_name("s3://bucket/s/x/") == ("s3://bucket/s", "x")
    with pytest.raises(UnsupportedStorage):
        parent_and_name("x")


def test_no_other_module_knows_a_name_in_storage() -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}:{line}: {text!r}"
        for program in ("jobmanager", "taskrunner")
        for path in sorted((REPOSITORY / program).rglob("*.py"))
        if path != BUILDER and CLIENT not in path.parents
        for line, text in names_in(path.read_text())
        if (path.relative_to(REPOSITORY).as_posix(), text) not in ALLOWED
    ]

    assert found == [], "build these with jobmanager.core.snapshots.layout"


@pytest.mark.parametrize(
    "code",
    [
        'root / "jobs" / job',
        'below(root, "jobs", job)',
        'files.list_files("pool")',
        'f"{root}/jobs/{job}"',
        'f"attempts/{number}"',
        'path = "pool.lock"',
        'f"{directory}/manifest.json"',
        'f".{name}.draft"',
    ],
)
def test_a_name_that_is_built_elsewhere_is_noticed(code: str) -> None:
    assert list(names_in(code))


@pytest.mark.parametrize(
    "code",
    ['{"jobs": jobs}', 'f"/v1/jobs/{job}"', '"""In `attempts/1/result.json`."""', 'x == "pool"'],
)
def test_what_only_looks_like_one_is_not(code: str) -> None:
    assert not list(names_in(code))


def names_in(code: str) -> Iterator[tuple[int, str]]:
    """Each name of a file or directory in storage that this code spells out."""
    tree = ast.parse(code)
    prose = {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Expr)}
    in_text = {
        id(part) for one in ast.walk(tree) if isinstance(one, ast.JoinedStr) for part in one.values
    }
    building = {id(part) for one in ast.walk(tree) for part in _parts_of_a_path(one)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) in prose:
                continue
            text = node.value
            is_place = id(node) in building and text.strip("/") in DIRECTORIES
            is_inside = id(node) in in_text and _names_a_directory(text)
            if OURS.search(text) or is_place or is_inside:
                yield node.lineno, text


def _parts_of_a_path(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        yield from (node.left, node.right)
    if isinstance(node, ast.Call):
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if BUILDS_PATHS.fullmatch(name):
            yield from node.args


def _names_a_directory(text: str) -> bool:
    if "/v1/" in text or " " in text:
        return False  # of the API, or a sentence
    return any(re.search(rf"(^|/){name}/", text) for name in DIRECTORIES)
