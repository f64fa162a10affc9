from pathlib import Path
from uuid import uuid4

import pytest

from jobmanager.files.open_storage import open_storage
from jobmanager.files.storage_port import Storage


@pytest.fixture(params=["file", "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """Empty, in each kind of place there is."""
    where = (tmp_path / "store").as_uri() if request.param == "file" else f"memory://{uuid4()}"
    return open_storage(where)
