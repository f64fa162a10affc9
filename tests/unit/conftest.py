from pathlib import Path
from uuid import uuid4

import pytest

from jobmanager.files.open_storage import open_files
from jobmanager.files.snapshot_files import SnapshotFiles


@pytest.fixture(params=["file", "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> SnapshotFiles:
    """Empty, in each kind of place there is."""
    where = (tmp_path / "store").as_uri() if request.param == "file" else f"memory://{uuid4()}"
    return open_files(where)
