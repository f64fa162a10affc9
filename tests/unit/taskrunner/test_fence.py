import subprocess
import sys
import time
from datetime import timedelta

import pytest

from jobmanager.core.ids import AttemptNumber
from jobmanager.core.snapshots.layout import EPOCH_LOCK
from jobmanager.core.snapshots.storage_uri import UnsupportedStorage, local_path
from jobmanager.files import locks
from taskrunner.snapshots.fence import Fence, Superseded, read_epoch
from taskrunner.snapshots.layout import JobLayout


def fence(layout: JobLayout, attempt: int) -> Fence:
    return Fence(layout, AttemptNumber(attempt))


def test_the_epoch_is_raised_and_never_lowered(layout: JobLayout) -> None:
    fence(layout, 2).raise_epoch()

    with pytest.raises(Superseded, match="attempt 1 was superseded by attempt 2"):
        fence(layout, 1).raise_epoch()
    assert read_epoch(layout) == 2


def test_an_older_attempt_can_publish_nothing_after_a_newer_one_took_over(
    layout: JobLayout,
) -> None:
    old, new = fence(layout, 1), fence(layout, 2)
    old.raise_epoch()
    old.check()
    new.raise_epoch()

    with pytest.raises(Superseded), old.holding():
        pytest.fail("the block must not run")


def test_an_attempt_may_raise_its_own_epoch_again(layout: JobLayout) -> None:
    fence(layout, 3).raise_epoch()
    fence(layout, 3).raise_epoch()

    assert read_epoch(layout) == 3


def test_a_newer_attempt_waits_for_a_publication_under_way(layout: JobLayout) -> None:
    with (
        fence(layout, 1).holding(),
        pytest.raises(locks.LockUnavailable),
        layout.work.lock(EPOCH_LOCK, wait=timedelta(milliseconds=60)),
    ):
        pytest.fail("two processes hold one lock")


def test_a_killed_process_holds_no_lock(layout: JobLayout) -> None:
    program = (
        "import sys, time, pathlib\n"
        "from jobmanager.files import locks\n"
        "with locks.held(pathlib.Path(sys.argv[1])):\n"
        "    sys.stdout.write('held\\n'); sys.stdout.flush(); time.sleep(60)\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program, str(layout.work.path(EPOCH_LOCK))], stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"

    holder.kill()
    holder.wait()
    holder.stdout.close()
    started = time.monotonic()
    fence(layout, 1).raise_epoch()

    assert time.monotonic() - started < 5


def test_storage_that_is_not_local_is_refused_with_what_to_do() -> None:
    with pytest.raises(UnsupportedStorage, match=r"'s3a://b/x' cannot be used.*file: URI"):
        local_path("s3a://b/x")
    assert str(local_path("file:///a%20b")) == "/a b"
