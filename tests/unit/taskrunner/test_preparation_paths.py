"""An attempt is held to the allowed paths before Spark starts, whatever was allowed earlier."""

from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest

from jobmanager.core.ids import AttemptNumber, JobId
from jobmanager.protocol.messages import PathRoots, RestorePointMessage, Run
from taskrunner.core.failures import classify
from taskrunner.preparation import Preparation
from taskrunner.spark.run.causes import causes_of, stack_of
from taskrunner.spark.session.session import WarmSession
from tests.support.builders import a_document, a_document_with


@pytest.mark.parametrize("what", ["sink", "restore point"])
def test_a_path_that_became_a_link_fails_the_attempt_for_good(tmp_path: Path, what: str) -> None:
    """The JobManager allowed the path, and then somebody made a link of it."""
    (tmp_path / "link").symlink_to("/etc")
    savepoint = RestorePointMessage(
        root=(tmp_path / "link" / "savepoint").as_uri(), manifest="manifest.json", name="theirs"
    )
    is_sink = what == "sink"
    order = Run(
        graph=a_document_with("out", path="link/out") if is_sink else a_document(),
        parallelism=2,
        spark_master="local[1]",
        storage=(tmp_path / "storage").as_uri(),
        data_root=str(tmp_path),
        allowed_paths=PathRoots(graphs=[str(tmp_path)], snapshots=[str(tmp_path)]),
        checkpoint=None,
        restore_point=None if is_sink else savepoint,
    )
    no_barriers = cast(Any, None)  # they come after what is refused here
    preparation = Preparation(
        JobId(UUID(int=1)), AttemptNumber(1), order, WarmSession(), no_barriers
    )

    with pytest.raises(Exception, match="not allowed") as raised:
        preparation.prepare(lambda: None)

    failure = classify(causes_of(raised.value), stack_of(raised.value), None)
    assert (failure.kind, failure.is_restartable) == ("invalid_job", False)
    assert ("out.path: " if is_sink else "theirs: ") in failure.message
    assert "leads to /etc/" in failure.message
    assert preparation.session.heap() is None  # there is no JVM
