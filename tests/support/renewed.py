"""Something costly that the tests of a module share, and that no failure is carried on by."""

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Generic, TypeVar

import pytest

Made = TypeVar("Made")
_HAS_FAILED = pytest.StashKey[bool]()


class Renewed(Generic[Made]):
    """Made for the first test that asks, kept for the next, and made anew after a test that failed
    with it: what such a test leaves behind is nobody's. What cannot be made fails the test that
    asked, and no other.
    """

    def __init__(self, make: Callable[[], AbstractContextManager[Made]]) -> None:
        self._make = make
        self._stack = ExitStack()
        self._kept: list[Made] = []

    @contextmanager
    def lent_to(self, test: pytest.Item) -> Iterator[Made]:
        """For one test, in a fixture of the test's own."""
        if not self._kept:
            self._kept.append(self._stack.enter_context(self._make()))
        yield self._kept[0]
        if test.stash.get(_HAS_FAILED, False):
            self.close()

    def close(self) -> None:
        self._kept.clear()
        self._stack.close()


@contextmanager
def renewed(make: Callable[[], AbstractContextManager[Made]]) -> Iterator[Renewed[Made]]:
    """For a fixture of the module."""
    shared = Renewed(make)
    try:
        yield shared
    finally:
        shared.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Notes a failure before the fixtures of the test are torn down."""
    report = yield
    if report.failed:
        item.stash[_HAS_FAILED] = True
    return report
