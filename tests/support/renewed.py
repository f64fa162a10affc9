"""A costly resource that the tests of a module share, and that is made anew after a failure."""

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Generic, TypeVar

import pytest

Made = TypeVar("Made")
_HAS_FAILED = pytest.StashKey[bool]()


class Renewed(Generic[Made]):
    """Made for the first test that asks, kept for the next, and made anew after a test that failed
    with it, since nobody knows what such a test leaves behind. It is made anew as well when it is
    not well any more. What cannot be made fails the test that asked, and no other.
    """

    def __init__(
        self,
        make: Callable[[], AbstractContextManager[Made]],
        is_well: Callable[[Made], bool],
        *,
        outlives_failures: bool,
    ) -> None:
        self._make = make
        self._is_well = is_well
        self._outlives_failures = outlives_failures
        self._stack = ExitStack()
        self._kept: list[Made] = []

    @contextmanager
    def lent_to(self, test: pytest.Item) -> Iterator[Made]:
        """For one test, in a fixture of the test's own."""
        if self._kept and not self._is_well(self._kept[0]):
            self.close()
        if not self._kept:
            self._kept.append(self._stack.enter_context(self._make()))
        yield self._kept[0]
        if test.stash.get(_HAS_FAILED, False) and not self._outlives_failures:
            self.close()

    @property
    def current(self) -> Made:
        """What is lent to the test that runs."""
        return self._kept[0]

    def close(self) -> None:
        self._kept.clear()
        self._stack.close()


@contextmanager
def renewed(
    make: Callable[[], AbstractContextManager[Made]],
    is_well: Callable[[Made], bool] = lambda made: True,
    *,
    outlives_failures: bool = False,
) -> Iterator[Renewed[Made]]:
    """For a fixture of the module or of the session."""
    shared = Renewed(make, is_well, outlives_failures=outlives_failures)
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
