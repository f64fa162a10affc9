"""Builders: fabricated Spark directories and graphs. Say what matters, default the rest."""

import io
import json
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from jobmanager.core.graph import graph_document
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import AttemptNumber, JobId, RegionId, VertexId
from taskrunner.snapshots.layout import JobLayout
from taskrunner.snapshots.wholeness import checksum_of

JOB = JobId(UUID(int=7))
OUT = RegionId("out")
SINK = VertexId("out")


def a_graph(*, parallelism: int = 2, max_parallelism: int = 8, **fields: Any) -> JobGraph:
    """A generator, a count per key and window, and a files sink `out`."""
    document = {
        "name": "orders",
        "parallelism": parallelism,
        "max_parallelism": max_parallelism,
        "vertices": [
            {
                "id": "orders",
                "op": "source",
                "connector": "generator",
                "rows_per_second": 10,
                "rows": 100,
                "columns": {"id": "id", "ts": "ts", "k": "id % 3"},
                "watermark": {"column": "ts", "delay": "1s"},
            },
            {
                "id": "counts",
                "op": "window",
                "inputs": ["orders"],
                "key": ["k"],
                "time": "ts",
                "window": {"tumbling": "2s"},
                "aggregate": {"n": "count(*)"},
            },
            {
                "id": "out",
                "op": "sink",
                "inputs": ["counts"],
                "connector": "files",
                "format": "json",
                "path": "out",
            },
        ],
    }
    return graph_document.parse({**document, **fields})


def state_id(operator: int, partition: int, version: int) -> str:
    return str(UUID(int=operator * 10_000 + partition * 1_000 + version + 1))


class SparkDirectory:
    """A Spark checkpoint directory as Spark 4.3 writes it, with one stateful operator."""

    def __init__(self, path: Path, partitions: int = 2, *, reads_files: bool = False) -> None:
        self.path = path
        self._partitions = partitions
        self._reads_files = reads_files
        self._write("metadata", '{"id":"x"}')
        if not reads_files:
            self._write("sources/0/0", "v1\n1700000000000")
        self._write("state/0/_metadata/metadata", "v1\n{}")
        self._write("state/0/0/_metadata/schema", "schema")

    def begin(self, batch: int, offset: int | None = None, watermark_ms: int = 0) -> None:
        metadata = json.dumps({"batchWatermarkMs": watermark_ms, "conf": {}})
        end = json.dumps(batch if offset is None else offset)
        if self._reads_files:
            end = json.dumps({"logOffset": batch})
            self._write(f"sources/0/{batch}", f'v1\n{{"path":"file:///in/{batch}.json"}}')
        self._write(f"offsets/{batch}", f"v1\n{metadata}\n{end}")

    def commit(self, batch: int) -> None:
        """Begins the batch, writes its changelogs, and commits it."""
        self.begin(batch)
        version = batch + 1
        for partition in range(self._partitions):
            name = f"{version}_{state_id(0, partition, version)}.changelog"
            self._write_state(f"state/0/{partition}/{name}", f"changes of {partition} at {version}")
        self._commit(batch)

    def _commit(self, batch: int) -> None:
        version = batch + 1
        ids = [[state_id(0, p, version)] for p in range(self._partitions)]
        document = {"nextBatchWatermarkMs": 0, "stateUniqueIds": {"0": ids}}
        self._write(f"commits/{batch}", "v2\n" + json.dumps(document))

    def snapshot(self, version: int, shared: Sequence[str]) -> None:
        """Writes a state snapshot of each partition, and the shared files it names."""
        for partition in range(self._partitions):
            self._snapshot(partition, version, shared)

    def _snapshot(self, partition: int, version: int, shared: Sequence[str]) -> None:
        rows = f"of {partition}"
        names = [
            {"dfsSstFileName": f"{name}-{partition}.sst", "sizeBytes": len(rows)} for name in shared
        ]
        for one in names:
            self._write(f"state/0/{partition}/SSTs/{one['dfsSstFileName']}", rows)
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("metadata", "v1\n" + json.dumps({"sstFiles": names}))
        name = f"{version}_{state_id(0, partition, version)}.zip"
        self._write_state(f"state/0/{partition}/{name}", archive.getvalue())

    def repartition(
        self, partitions: int, shared: Sequence[str], filled: Sequence[int] | None = None
    ) -> int:
        """What Spark's state rewrite leaves: a batch that is a snapshot of every new partition.
        `filled` ones hold rows; None: all do.
        """
        batch = max(int(name) for name in self.names("commits") if name.isdigit()) + 1
        self.begin(batch, offset=batch - 1)
        self._partitions = partitions
        for partition in range(partitions):
            home = self.path / f"state/0/{partition}"
            home.mkdir(exist_ok=True)
            is_filled = filled is None or partition in filled
            self._snapshot(partition, batch + 1, shared if is_filled else [])
        self._commit(batch)
        return batch

    def names(self, inside: str) -> set[str]:
        return {p.name for p in (self.path / inside).iterdir() if p.is_file()}

    def _write_state(self, name: str, content: str | bytes) -> None:
        """A state file, and what Spark writes down about it."""
        self._write(name, content)
        size = (self.path / name).stat().st_size
        self._write(f"{name}.crc", json.dumps({"algorithm": "CRC32C", "mainFileSize": size}))

    def _write(self, name: str, content: str | bytes) -> None:
        """A file, and Hadoop's checksum of it."""
        target = self.path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            target.write_bytes(content.encode() if isinstance(content, str) else content)
            checksum_of(target).write_bytes(hadoop_checksum(target.read_bytes()))


def hadoop_checksum(content: bytes) -> bytes:
    """As Hadoop's `ChecksumFileSystem` writes it: CRC-32 of every 512 bytes."""
    sums = [zlib.crc32(content[i : i + 512]) for i in range(0, len(content), 512)]
    return b"crc\0" + (512).to_bytes(4, "big") + b"".join(one.to_bytes(4, "big") for one in sums)


def spark_directory(layout: JobLayout, attempt: int, partitions: int = 2) -> SparkDirectory:
    """The directory of the region `out` in an attempt."""
    path = layout.spark_checkpoint_dir(AttemptNumber(attempt), OUT)
    return SparkDirectory(path, partitions)
