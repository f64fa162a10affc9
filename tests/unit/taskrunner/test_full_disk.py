import pytest

from jobmanager.core.life.failure import FailureKind
from taskrunner.core import full_disk
from taskrunner.core.failures import Cause

CAUSES = [
    Cause("StreamingQueryException", "[FOREACH_BATCH_USER_FUNCTION_ERROR] …"),
    Cause("IOException", "Mkdirs failed to create file:/data/out/_temporary/0 (exists=false, …)"),
]


def test_a_directory_that_was_not_made_on_a_full_disk_is_told_so() -> None:
    asked = []

    def free(path: str) -> int:
        asked.append(path)
        return 4096

    told = full_disk.explain(CAUSES, free)

    assert told is not None
    assert asked == ["/data/out/_temporary/0"]
    assert told.message.startswith("no space left on the device of /data/out/_temporary/0 (4096")
    assert (told.kind, told.is_restartable) == (FailureKind.INFRASTRUCTURE, True)


@pytest.mark.parametrize("free", [None, 10**9])
def test_with_space_left_it_is_some_other_failure(free: int | None) -> None:
    assert full_disk.explain(CAUSES, lambda path: free) is None
    assert full_disk.explain(CAUSES[:1], lambda path: 0) is None
