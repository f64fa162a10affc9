"""Races for a lock that is made of conditional writes, each brought about on purpose."""

import threading
from collections.abc import Callable, Iterable, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import timedelta
from uuid import uuid4

import pytest

from jobmanager.files import created_locks
from jobmanager.files.locks import LockUnavailable
from jobmanager.files.open_storage import open_storage

LOCK = "jobs/1/pool.lock"
SOON = timedelta(milliseconds=300)


class Interrupted:
    """Storage in memory in which something happens between a look and what follows from it."""

    def __init__(self, after_look: Callable[[], object]) -> None:
        self._files = open_storage(f"memory://{uuid4()}")
        self._after_look = after_look
        self.uri = self._files.uri

    def list_names(self, below: str = "") -> Set[str]:
        names = self._files.list_names(below)
        self._after_look()
        return names

    def read(self, location: str) -> bytes:
        return self._files.read(location)

    def write(self, location: str, content: str | bytes) -> None:
        self._files.write(location, content)

    def create(self, location: str, content: str | bytes) -> bool:
        return self._files.create(location, content)

    def delete(self, locations: Iterable[str]) -> None:
        self._files.delete(locations)


def test_of_two_who_find_the_lock_free_at_once_one_has_it() -> None:
    both_have_looked, first_look = threading.Barrier(2), threading.local()

    def wait_for_the_other() -> None:
        if not hasattr(first_look, "over"):
            first_look.over = True
            both_have_looked.wait(30)

    files = Interrupted(wait_for_the_other)
    the_other_gave_up = threading.Event()

    def try_it(_: int) -> bool:
        try:
            with created_locks.held(files, LOCK, SOON):
                the_other_gave_up.wait(30)
                return True
        except LockUnavailable:
            the_other_gave_up.set()
            return False

    with ThreadPoolExecutor(2) as two:
        assert sorted(two.map(try_it, range(2))) == [False, True]


def test_who_found_the_lock_free_long_ago_does_not_have_it_now() -> None:
    """Meanwhile others have had it, have let go, and their files were deleted."""
    looks: list[int] = [0]
    stack: list[AbstractContextManager[None]] = []

    def others_come_and_go() -> None:
        looks[0] += 1
        if looks[0] == 1:
            for _ in range(2):
                with created_locks.held(files, LOCK, SOON):
                    pass
            held = created_locks.held(files, LOCK, SOON)
            held.__enter__()
            stack.append(held)

    files = Interrupted(others_come_and_go)

    with pytest.raises(LockUnavailable), created_locks.held(files, LOCK, SOON):
        raise AssertionError("two have it")
    stack.pop().__exit__(None, None, None)
    with created_locks.held(files, LOCK, SOON):
        pass
