"""Locks on files, and what becomes of one whose holder is frozen."""

import fcntl
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from jobmanager.files import locks
from jobmanager.files.local_storage import LocalStorage
from jobmanager.files.pool_lock import pool_locked

SOON = timedelta(milliseconds=50)


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[Path]:
    """A lock that somebody has and does not let go."""
    path = tmp_path / "pool.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield path
    os.close(descriptor)


def refuses(path: Path) -> None:
    with pytest.raises(locks.LockUnavailable, match="by another"), locks.held(path, SOON):
        raise AssertionError("two have it")


def test_a_lock_that_is_held_is_not_had(frozen: Path) -> None:
    refuses(frozen)


def test_a_lock_that_was_broken_can_be_had_by_one_at_a_time(frozen: Path) -> None:
    locks.break_lock(frozen, SOON)
    with locks.held(frozen, SOON):
        refuses(frozen)
    with pool_locked(LocalStorage(frozen.parent), SOON):
        refuses(frozen)
    assert [one.name for one in frozen.parent.iterdir()] == ["pool.lock"]


def test_who_waits_for_a_lock_gets_the_one_that_takes_its_place(frozen: Path) -> None:
    def wait() -> bool:
        with locks.held(frozen, timedelta(seconds=60)):
            return True

    with ThreadPoolExecutor() as others:
        waiting = others.submit(wait)
        locks.break_lock(frozen, SOON)
        assert waiting.result(60)


def test_a_lock_that_is_free_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "pool.lock"
    path.touch()
    before = path.stat().st_ino
    locks.break_lock(path, SOON)
    assert path.stat().st_ino == before
