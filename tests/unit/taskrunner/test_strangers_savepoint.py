"""A savepoint that a stranger wrote, whole by its checksums: what of it is refused, and when."""

import base64
import io
import json
import pickle
import zipfile
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.types import _parse_datatype_json_string

from jobmanager.core.errors import PathNotAllowed
from jobmanager.core.ids import AttemptNumber
from jobmanager.core.paths.allowed_paths import PathRules
from jobmanager.core.snapshots import manifest as manifests
from jobmanager.core.snapshots.manifest import SnapshotFile
from jobmanager.files.resolved_places import path_rules
from jobmanager.protocol.messages import RestorePointMessage
from taskrunner.snapshots.fence import Fence
from taskrunner.snapshots.layout import JobLayout
from taskrunner.snapshots.restore_source import RestoreRefused, RestoreSource, open_restore_source
from taskrunner.snapshots.snapshot import AttemptContext, Snapshots
from tests.support.stranger import Command
from tests.unit.taskrunner.builders import JOB, OUT, a_graph, spark_directory
from tests.unit.taskrunner.test_savepoint import NOW, take


@pytest.fixture
def savepoint(layout: JobLayout, tmp_path: Path) -> Path:
    spark = spark_directory(layout, 1)
    for batch in range(2):
        spark.commit(batch)
    spark.snapshot(version=2, shared=["000008"])
    target = tmp_path / "data" / "savepoint"
    take(layout, target)
    return target


def forge(savepoint: Path, location: str, content: bytes) -> None:
    """Another content, with its checksum in the manifest."""
    (savepoint / location).unlink()
    (savepoint / location).write_bytes(content)
    manifest = manifests.from_json((savepoint / "manifest.json").read_text())

    def forged(file: SnapshotFile) -> SnapshotFile:
        if file.location != location:
            return file
        return replace(file, bytes=len(content), sha256=sha256(content).hexdigest())

    regions = {
        name: replace(region, files=tuple(map(forged, region.files)))
        for name, region in manifest.regions.items()
    }
    text = manifests.to_json(replace(manifest, regions=regions))
    (savepoint / "manifest.json").write_text(text)


def opened(savepoint: Path, rules: PathRules | None = None) -> RestoreSource:
    point = RestorePointMessage(root=savepoint.as_uri(), manifest="manifest.json", name="theirs")
    return open_restore_source(point, a_graph(), rules)


def rules_for(root: Path) -> PathRules:
    return path_rules([str(root)], [str(root)], str(root))


def test_an_archive_that_would_write_over_a_file_of_ours_is_refused(savepoint: Path) -> None:
    [archive, *_] = sorted(savepoint.rglob("*.zip"))
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as forged:
        names = [{"localFileName": "../../../.bashrc", "dfsSstFileName": "000008-0.sst"}]
        forged.writestr("metadata", "v1\n" + json.dumps({"sstFiles": names}))
    opened(savepoint)

    forge(savepoint, archive.relative_to(savepoint).as_posix(), made.getvalue())

    with pytest.raises(RestoreRefused, match=r"names the file '\.\./\.\./\.\./\.bashrc'"):
        opened(savepoint)


def test_a_file_that_is_a_link_to_somewhere_else_is_refused(
    savepoint: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("secret")
    forge(savepoint, "out/sources/0/0", b"secret")
    (savepoint / "out/sources/0/0").unlink()
    (savepoint / "out/sources/0/0").symlink_to(tmp_path / "secret")

    opened(savepoint)  # a server that takes any path takes this one
    with pytest.raises(RestoreRefused, match="through a symbolic link, which is not allowed"):
        opened(savepoint, rules_for(tmp_path / "data"))


def test_an_input_file_that_the_graph_could_not_name_is_refused(
    savepoint: Path, layout: JobLayout, tmp_path: Path
) -> None:
    """Spark would read it as part of a batch that is not committed yet."""
    log = 'v1\n{"path":"file:///etc/passwd","timestamp":1,"batchId":0}'
    forge(savepoint, "out/sources/0/0", log.encode())
    source = opened(savepoint, rules_for(tmp_path / "data"))

    with pytest.raises(RestoreRefused, match="/etc/passwd is not allowed"):
        source.clone(OUT, tmp_path / "clone", layout)


def test_input_files_below_a_root_and_rows_of_the_job_itself_are_fine(
    savepoint: Path, layout: JobLayout, tmp_path: Path
) -> None:
    inputs = [f"file://{tmp_path}/data/in/a%20b.csv", f"{layout.work.uri}/rows/x.json"]
    lines = [json.dumps({"path": one, "timestamp": 1, "batchId": 0}) for one in inputs]
    forge(savepoint, "out/sources/0/0", "\n".join(["v1", *lines]).encode())

    opened(savepoint, rules_for(tmp_path / "data")).clone(OUT, tmp_path / "clone", layout)

    assert (tmp_path / "clone/sources/0/0").read_text().splitlines()[1:] == lines


def test_a_savepoint_is_written_to_allowed_places_only(layout: JobLayout, tmp_path: Path) -> None:
    attempt = AttemptNumber(1)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "link").symlink_to("/etc")
    subject = AttemptContext(JOB, attempt, a_graph(), 2, "4.3.0")
    rules = rules_for(tmp_path / "data")
    snapshots = Snapshots(subject, layout, Fence(layout, attempt), rules)

    for target in ("file:///etc/savepoint", f"file://{tmp_path}/data/link/savepoint"):
        with pytest.raises(PathNotAllowed):
            snapshots.take_savepoint(1, {}, NOW, JOB, target)  # type: ignore[arg-type]


def test_spark_loads_no_class_that_comes_with_a_schema(tmp_path: Path) -> None:
    """The schema of state is JSON of whoever wrote it, and the inspector has PySpark read it."""
    marker = tmp_path / "marker"
    pickled = base64.b64encode(pickle.dumps(Command(str(marker)))).decode()
    field = {"type": "udt", "pyClass": "os.Nothing", "serializedClass": pickled, "sqlType": "long"}
    for names in ({"pyClass": "os.Nothing"}, {"pyClass": "os.abort"}, {"pyClass": "__main__.X"}):
        with pytest.raises(PySparkException):
            _parse_datatype_json_string(json.dumps({**field, **names}))

    assert not marker.exists()
