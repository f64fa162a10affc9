"""A bucket of a real S3 server, and what Spark needs to reach it by `s3a:`.

The client is over 600 MB: its jars are in a session of Spark only if `HEADGATE_TEST_S3A` is set, as
`make chaos` does for the tests of `s3a:`.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from tests.support.s3 import S3, an_s3_server

VARIABLE = "HEADGATE_TEST_S3A"


def is_wanted() -> bool:
    return bool(os.environ.get(VARIABLE))


@dataclass(frozen=True)
class Bucket:
    """With a name of its own: Hadoop keeps its connection to a bucket by the bucket's name."""

    server: S3
    name: str

    @property
    def uri(self) -> str:
        return f"s3a://{self.name}"

    @property
    def options(self) -> Mapping[str, str]:
        """The settings of the file system, as options of a source or sink."""
        return {
            "fs.s3a.endpoint": self.server.url,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.access.key": "test",
            "fs.s3a.secret.key": "test",
        }

    def files(self, below: str) -> dict[str, int]:
        """Every object below a prefix, and its size, without the markers of directories."""
        sizes = self.server.sizes(below.strip("/"), bucket=self.name)
        return {key: size for key, size in sizes.items() if key and not key.endswith("/")}

    def get(self, path: str) -> bytes:
        return self.server.get(path.strip("/"), bucket=self.name)

    def put(self, path: str, content: bytes, *, modified_ms: int | None = None) -> None:
        """An object cannot be given a time: objects that come later are newer."""
        self.server.put(path.strip("/"), content, bucket=self.name)


@contextmanager
def a_bucket() -> Iterator[Bucket]:
    with (
        tempfile.TemporaryDirectory(prefix="hgs", ignore_cleanup_errors=True) as name,
        an_s3_server(Path(name)) as server,
    ):
        bucket = Bucket(server, f"files-{uuid4().hex[:12]}")
        server.make_bucket(bucket.name)
        yield bucket
