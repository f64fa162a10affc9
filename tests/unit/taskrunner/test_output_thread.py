"""The thread that shows held output: joins come first, and never stand in its way."""

from collections.abc import Iterator
from queue import SimpleQueue
from threading import Event

import pytest

from taskrunner.core.attempt import events
from taskrunner.core.attempt.instructions import ShowOutput
from taskrunner.output_thread import OutputSources, OutputThread
from taskrunner.sinks.joiner import BreakOff, JoinRefused
from taskrunner.snapshots.fence import Superseded
from tests.unit.taskrunner.builders import OUT


class Output:
    """The held output of one region, and what is done with it."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.told: SimpleQueue[events.Event] = SimpleQueue()
        self.fault: Exception | None = None
        self.show_fault: Exception | None = None
        self.is_joining = Event()
        self.may_join = Event()
        self.may_join.set()
        self.thread = OutputThread(self.told.put)
        self.thread.can_show(OutputSources({OUT: [self]}, self.join_files, self.shown))

    def join_files(self, region: str, batch: int, break_off: BreakOff) -> None:
        self.is_joining.set()
        with break_off.ending(self.may_join.set):
            assert self.may_join.wait(30)
            break_off.check()
        if self.fault is not None:
            raise self.fault
        self.done.append(f"joined {batch}")

    def show_up_to(self, batch: int) -> None:
        if self.show_fault is not None:
            raise self.show_fault
        self.done.append(f"shown {batch}")

    def shown(self, show: ShowOutput) -> None:
        self.done.append(f"told sources {show.checkpoint}")

    def show(self, checkpoint: int, batch: int | None) -> None:
        self.thread.do(ShowOutput(checkpoint, {OUT: batch}))

    def end(self) -> list[events.Event]:
        self.thread.end(waits=True)
        return [self.told.get_nowait() for _ in range(self.told.qsize())]


@pytest.fixture
def output() -> Iterator[Output]:
    under_test = Output()
    yield under_test
    under_test.thread.end(waits=False)


def test_files_are_joined_and_then_shown(output: Output) -> None:
    output.thread.start()
    output.show(3, 7)

    assert output.told.get(timeout=30) == events.OutputShown(3)
    assert output.done == ["joined 7", "shown 7", "told sources 3"]


def test_a_region_without_a_batch_has_nothing_to_show(output: Output) -> None:
    output.thread.start()
    output.show(3, None)

    assert output.told.get(timeout=30) == events.OutputShown(3)
    assert output.done == ["told sources 3"]


def test_output_is_shown_as_it_is_if_files_cannot_be_joined(output: Output) -> None:
    output.fault = JoinRefused("damaged")
    output.thread.start()
    output.show(3, 7)

    assert output.end() == [events.OutputShown(3)]
    assert output.done == ["shown 7", "told sources 3"]


def test_output_is_shown_as_it_is_if_that_of_the_next_checkpoint_waits(output: Output) -> None:
    for checkpoint in (1, 2, 3):
        output.show(checkpoint, checkpoint * 10)
    output.thread.start()

    assert output.told.get(timeout=30) == events.OutputShown(1)
    assert output.told.get(timeout=30) == events.OutputShown(2)
    assert output.told.get(timeout=30) == events.OutputShown(3)
    assert [one for one in output.done if not one.startswith("told")] == [
        "shown 10",
        "shown 20",
        "joined 30",
        "shown 30",
    ]


def test_the_join_under_way_ends_when_the_attempt_is_about_to_end(output: Output) -> None:
    output.may_join.clear()
    output.thread.start()
    output.show(1, 10)
    assert output.is_joining.wait(30)

    output.thread.join_no_more()
    output.show(2, 20)

    assert output.end() == [events.OutputShown(1), events.OutputShown(2)]
    assert [one for one in output.done if not one.startswith("told")] == ["shown 10", "shown 20"]


def test_what_cannot_be_shown_is_told(output: Output) -> None:
    output.show_fault = OSError("no space")
    output.thread.start()
    output.show(1, 10)
    assert output.told.get(timeout=30) == events.OutputNotShown(1, "OSError: no space")

    output.show_fault = Superseded("attempt 2")
    output.show(2, 20)
    assert output.told.get(timeout=30) == events.Replaced("attempt 2")
