import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId, RegionId, VertexId
from jobmanager.core.snapshots import manifest as manifests
from jobmanager.core.snapshots.manifest import (
    END_OF_TIME,
    Ancestor,
    InvalidManifest,
    Manifest,
    RegionManifest,
    SavepointInfo,
    SnapshotFile,
    StatePointer,
)
from taskrunner.core.end_of_time import END_OF_TIME_MS
from taskrunner.snapshots.spark_log import moment_of
from tests.unit.taskrunner.builders import JOB

POOLED = SnapshotFile("state/0/0/a.changelog", "pool/out/state/0/0/a.changelog", 10, "aa")
SMALL = SnapshotFile("offsets/3", "checkpoints/4/out/offsets/3", 5, "bb")
REGION = RegionManifest(
    batch=3,
    watermark=datetime(2026, 11, 16, tzinfo=UTC),
    offsets={VertexId("bids"): {"logOffset": 3}},
    files=(POOLED, SMALL),
    pointers=(StatePointer(VertexId("counts"), 0, 4, POOLED.location, 10),),
)
MANIFEST = Manifest(
    job=JOB,
    checkpoint=CheckpointNumber(4),
    attempt=AttemptNumber(2),
    created_at=datetime(2026, 11, 16, 12, tzinfo=UTC),
    spark_version="4.3.0",
    parallelism=2,
    max_parallelism=720,
    regions={RegionId("out"): REGION, RegionId("idle"): RegionManifest(None, None, {}, (), ())},
)


def test_what_is_written_is_read_back() -> None:
    assert manifests.from_json(manifests.to_json(MANIFEST)) == MANIFEST


SAVEPOINT = replace(
    MANIFEST,
    savepoint=SavepointInfo(
        id=UUID(int=9),
        graph={"name": "bids", "vertices": [{"id": "bids", "rows": [{"k": "ä"}]}]},
        lineage=(
            Ancestor(JobId(UUID(int=1)), {VertexId("out"): 1}),
            Ancestor(JOB, {VertexId("out"): 3, VertexId("idle"): None}),
        ),
    ),
)


def test_a_savepoint_says_what_it_is_of_and_is_read_back() -> None:
    assert manifests.from_json(manifests.to_json(SAVEPOINT)) == SAVEPOINT


def test_a_drained_savepoint_says_so_and_one_of_old_is_told_by_its_watermark() -> None:
    drained = replace(REGION, watermark=END_OF_TIME)
    of_old = replace(SAVEPOINT, regions={**SAVEPOINT.regions, RegionId("out"): drained})
    assert of_old.savepoint is not None
    marked = replace(of_old, savepoint=replace(of_old.savepoint, is_drained=True))

    assert manifests.from_json(manifests.to_json(marked)) == marked
    assert json.loads(manifests.to_json(marked))["savepoint"]["drained"] is True
    assert "drained" not in json.loads(manifests.to_json(of_old))["savepoint"]
    assert marked.drained_regions == of_old.drained_regions == (RegionId("out"),)
    assert SAVEPOINT.drained_regions == ()


def test_a_drain_takes_the_watermark_to_the_end_of_time() -> None:
    assert moment_of(END_OF_TIME_MS) == END_OF_TIME


def test_a_checkpoint_descends_from_its_own_job_and_a_savepoint_from_all() -> None:
    assert MANIFEST.lineage == (Ancestor(JOB, {VertexId("out"): 3, VertexId("idle"): None}),)
    assert [one.job.int for one in SAVEPOINT.lineage] == [1, JOB.int]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"id": "x"}, r"savepoint\.id: 'x' is not a UUID"),
        ({"more": 1}, r"savepoint: unknown field 'more'"),
        ({"drained": "yes"}, r"savepoint\.drained: 'yes' is not true or false"),
        ({"lineage": [{"job": str(JOB), "batches": {"out": -1}}]}, r"lineage\[0\]\.batches\.out"),
    ],
)
def test_a_wrong_field_of_a_savepoint_is_named(change: dict[str, Any], message: str) -> None:
    document = json.loads(manifests.to_json(SAVEPOINT))
    document["savepoint"] |= change

    with pytest.raises(InvalidManifest, match=message):
        manifests.from_json(json.dumps(document))


def test_its_bytes_count_every_file_once() -> None:
    assert MANIFEST.bytes == 15


def test_only_files_in_the_pool_are_shared() -> None:
    assert [file.is_pooled for file in MANIFEST.files()] == [True, False]


def test_another_format_is_refused_with_both_numbers() -> None:
    with pytest.raises(InvalidManifest, match=r"format 9; this version of Headgate reads 1"):
        manifests.from_json(_with(format=9))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"job": "no"}, r"manifest\.job: 'no' is not a UUID"),
        ({"checkpoint": 0}, r"manifest\.checkpoint: 0 is not an integer of at least 1"),
        ({"created_at": "2026-11-16T12:00:00"}, r"offset from UTC"),
        ({"regions": []}, r"manifest\.regions: \[\] is not an object"),
        ({"extra": 1}, r"unknown field 'extra'"),
        ({"regions": {"out": {"batch": -1}}}, r"regions\.out\.batch: -1"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidManifest, match=message):
        manifests.from_json(_with(**fields))


def test_a_path_that_leads_out_of_its_directory_is_refused() -> None:
    document = json.loads(manifests.to_json(MANIFEST))
    document["regions"]["out"]["files"][0]["location"] = "pool/../../etc/passwd"

    with pytest.raises(InvalidManifest, match=r"files\[0\]\.location.*a path inside"):
        manifests.from_json(json.dumps(document))


def test_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(InvalidManifest, match="not JSON"):
        manifests.from_json("{")


def _with(**fields: Any) -> str:
    return json.dumps({**json.loads(manifests.to_json(MANIFEST)), **fields})
