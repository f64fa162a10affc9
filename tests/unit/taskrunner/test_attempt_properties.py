"""Random lives of an attempt. Whatever is said and seen, in whatever order, these hold."""

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobmanager.core.life.checkpoint import AckOutcome
from jobmanager.protocol.messages import (
    AttemptFailedReport,
    CheckpointAborted,
    CheckpointCompleted,
    ProgressReport,
)
from taskrunner.core.attempt import events, machine
from taskrunner.core.attempt.events import Event, TimePassed
from taskrunner.core.attempt.instructions import (
    AskRegionsToStop,
    BreakOffSnapshot,
    DrainRegions,
    End,
    Instruction,
    Prepare,
    Report,
    SendAcks,
    SendDecline,
    ShowAllOutput,
    ShowOutput,
    StartQueries,
    TakeSnapshot,
    WatchBatches,
)
from taskrunner.core.attempt.phases import Ended, Ending
from tests.unit.taskrunner.attempts import (
    DISMISSED,
    ENDED,
    FAILED,
    FINISHED,
    HOLDS_OUTPUT,
    OUT,
    PREPARED,
    RAW,
    REPLACED,
    STARTED,
    STOPPED,
    a_barrier,
    a_cancel,
    a_stop,
    answers_to,
    failure,
    seen,
    taken,
)

CHECKPOINTS = range(1, 7)
numbers = st.sampled_from(CHECKPOINTS)
seconds = st.sampled_from([0.0, 5.0, 20.0, 60.0])


def orders() -> st.SearchStrategy[Event]:
    """What comes from outside, at any time."""
    return st.one_of(
        st.builds(a_barrier, numbers, seconds),
        st.builds(a_barrier, numbers, seconds),
        st.builds(a_stop, numbers, seconds, drain=st.booleans(), keep_runner=st.booleans()),
        st.builds(a_cancel, seconds),
        st.builds(lambda number: CheckpointCompleted(checkpoint=number), numbers),
        st.builds(lambda number: CheckpointAborted(checkpoint=number, reason="x"), numbers),
    )


def ends() -> st.SearchStrategy[Event]:
    return st.sampled_from([REPLACED, DISMISSED, FAILED, *FINISHED])


def news() -> st.SearchStrategy[Event]:
    """Answers to anything, whether it was asked or not."""
    return st.one_of(
        st.sampled_from(
            [PREPARED, HOLDS_OUTPUT, STARTED, STOPPED, *ENDED, events.RegionsDrained()]
        ),
        st.sampled_from([events.AllOutputShown(), events.AllOutputNotShown(failure())]),
        st.sampled_from([events.PreparationFailed(failure()), events.StartFailed(failure())]),
        st.sampled_from([events.QueryCannotStop(OUT), events.QueryCannotStop(RAW)]),
        st.builds(seen, numbers, st.just(3), st.sampled_from([2, 3]), is_alive=st.booleans()),
        st.builds(taken, numbers),
        st.builds(
            events.SnapshotFailed, numbers, st.sampled_from(["storage", "superseded"]), st.just("x")
        ),
        st.builds(events.AcksAnswered, numbers, st.sampled_from(list(AckOutcome))),
        st.builds(events.AcksNotDelivered, numbers, st.just("no route")),
        st.builds(events.DeclineAnswered, numbers, st.sampled_from([False, False, True])),
        st.builds(events.OutputShown, numbers),
        st.builds(events.OutputNotShown, numbers, st.just("no space")),
    )


class Watched:
    """An attempt whose every step is checked."""

    def __init__(self) -> None:
        self.state, first = machine.begin()
        self.given: list[Instruction] = []
        self.answered: list[int] = []
        self.snapshots: set[int] = set()
        """Under way."""
        self.broken_off: set[int] = set()
        self.given_up: set[int] = set()
        """Barriers that waited for their turn when a failure broke a snapshot off: what the thread
        would say of them has to wait until the file that it uploads is done.
        """
        self.replaced = self.reported = self.ended = self.failed = False
        self.runs = False
        self._check(first)

    def tell(self, event: Event) -> tuple[Instruction, ...]:
        match event:
            case events.Replaced():
                self.replaced = True
            case events.SnapshotTaken(acks=acks):
                self.snapshots.discard(acks.checkpoint)
            case events.SnapshotFailed(checkpoint=checkpoint):
                self.snapshots.discard(checkpoint)
            case events.RegionsStopped() | events.StartFailed():
                self.runs = False
            case _:
                pass
        was_over = isinstance(self.state.phase, Ended)
        waiting = {one.checkpoint for one in self.state.answers.waiting}
        self.state, instructions = machine.step(self.state, event)
        is_broken_off = any(isinstance(one, BreakOffSnapshot) for one in instructions)
        if is_broken_off and isinstance(self.state.phase, Ending):
            self.given_up |= waiting
        assert not (was_over and instructions), "nothing follows the end"
        if isinstance(event, TimePassed):
            deadline = machine.next_deadline(self.state)
            assert deadline is None or deadline > event.at, "whoever waits would wait for ever"
        self._check(instructions)
        return instructions

    def _check(self, instructions: tuple[Instruction, ...]) -> None:
        for one in instructions:
            assert not self.ended, f"{one} after the end"
            self.given.append(one)
            match one:
                case Report(body=body):
                    self._check_report(body)
                case SendAcks(acks=acks):
                    assert not self.reported, "acks after the ending was reported"
                    self._answer(acks.checkpoint)
                case SendDecline(checkpoint=checkpoint):
                    assert not self.reported, "a decline after the ending was reported"
                    self._answer(checkpoint)
                case TakeSnapshot(barrier=barrier):
                    assert not self.snapshots, "two snapshots at a time"
                    self.snapshots.add(barrier.checkpoint)
                case BreakOffSnapshot(checkpoint=checkpoint):
                    assert checkpoint in self.snapshots, "nothing to break off"
                    self.broken_off.add(checkpoint)
                case StartQueries():
                    assert self.given.count(one) == 1
                    self.runs = True
                case End():
                    self.ended = True
                case _:
                    pass
        assert self.ended == isinstance(self.state.phase, Ended)

    def _check_report(self, body: object) -> None:
        assert not self.replaced, "said after it was replaced"
        if isinstance(body, ProgressReport):
            assert not self.reported
            return
        assert not self.reported, "two endings"
        assert not self.runs, "reported while queries may run"
        if isinstance(body, AttemptFailedReport):
            self.failed = True
            assert self.snapshots <= self.broken_off, "a snapshot goes on after a failure"
        else:
            assert not self.snapshots, "reported while a snapshot is under way"
        self.reported = True

    def _answer(self, checkpoint: int) -> None:
        assert checkpoint not in self.answered, f"checkpoint {checkpoint} is answered twice"
        self.answered.append(checkpoint)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(orders(), news(), news(), ends(), st.builds(TimePassed, st.floats(0, 200))),
        max_size=60,
    )
)
def test_whatever_is_said_it_ends_at_most_once_and_says_nothing_twice(told: list[Event]) -> None:
    attempt = Watched()
    at = 0.0
    for event in told:
        if isinstance(event, TimePassed):
            at = max(at, event.at)
            event = TimePassed(at)
        attempt.tell(event)


def outcomes(instruction: Instruction) -> list[list[Event]]:
    """What may be heard of an instruction: first that all went well."""
    well = answers_to(instruction)
    ill: list[list[Event]] = []
    match instruction:
        case Prepare():
            ill = [[events.PreparationFailed(failure())], [HOLDS_OUTPUT]]
        case StartQueries():
            ill = [[events.StartFailed(failure())]]
        case AskRegionsToStop():
            ill = [[FAILED, ENDED[1]], [events.QueryCannotStop(OUT), ENDED[1]]]
        case DrainRegions():
            ill = [[FAILED]]
        case WatchBatches(checkpoint=number):
            ill = [[seen(number, 3, 2, is_alive=False)]]
        case TakeSnapshot(barrier=barrier):
            ill = [[events.SnapshotFailed(barrier.checkpoint, "storage", "no space")]]
        case SendAcks(acks=acks):
            ill = [
                [events.AcksAnswered(acks.checkpoint, AckOutcome.TOO_LATE)],
                [events.AcksAnswered(acks.checkpoint, AckOutcome.RECORDED)],
                [events.AcksNotDelivered(acks.checkpoint, "no route")],
                [DISMISSED, events.AcksNotDelivered(acks.checkpoint, "dismissed")],
                [events.AcksAnswered(acks.checkpoint, AckOutcome.SUPERSEDED)],
            ]
        case SendDecline(checkpoint=number):
            ill = [
                [events.DeclineAnswered(number, is_superseded=True)],
                [DISMISSED, events.DeclineAnswered(number)],
            ]
        case ShowOutput(checkpoint=number):
            ill = [[events.OutputNotShown(number, "no space")], [REPLACED]]
        case ShowAllOutput():
            ill = [[events.AllOutputNotShown(failure())], [REPLACED]]
        case _:
            pass
    return [one for one in [well, *ill] if one]


class Lived:
    """An attempt whose instructions are all carried out some time, well or ill."""

    def __init__(self) -> None:
        self.attempt = Watched()
        self.pending: list[Instruction] = list(self.attempt.given)
        self.at = 0.0
        self.barriers: set[int] = set()
        """That came while they had to be answered."""
        self.newest = 0

    def hear(self, event: Event) -> None:
        number = _number_of(event)
        if number is not None:
            phase = self.attempt.state.phase
            if number > self.newest and not isinstance(phase, Ending | Ended):
                self.barriers.add(number)
                self.newest = number
            elif number > self.newest:
                return
        for instruction in self.attempt.tell(event):
            if outcomes(instruction):
                self.pending.append(instruction)

    def answer(self, which: int, how: int) -> None:
        if self.pending:
            instruction = self.pending.pop(which % len(self.pending))
            possible = outcomes(instruction)
            for event in possible[how % len(possible)]:
                self.hear(event)

    def pass_time(self, seconds: float) -> None:
        self.at += seconds
        self.hear(TimePassed(self.at))


def _number_of(event: Event) -> int | None:
    match event:
        case events.BarrierArrived(barrier=barrier):
            return barrier.checkpoint
        case events.StopAsked(stop=stop):
            return stop.checkpoint
        case _:
            return None


Deed = tuple[str, Any]
well = st.tuples(st.integers(0, 3), st.just(0))
ill = st.tuples(st.integers(0, 9), st.integers(1, 5))
deeds: st.SearchStrategy[Deed] = st.one_of(
    st.tuples(st.just("barrier"), seconds),
    st.tuples(st.just("answer"), well),
    st.tuples(st.just("answer"), well),
    st.tuples(st.just("answer"), ill),
    st.tuples(st.just("time"), st.sampled_from([1.0, 10.0, 100.0])),
    st.tuples(st.just("stop"), st.tuples(seconds, st.booleans())),
    st.tuples(st.just("hear"), st.one_of(orders(), ends(), ends())),
)


def live(lived: Lived, deed: Deed) -> None:
    match deed:
        case "barrier", time_left:
            lived.hear(a_barrier(lived.newest + 1, time_left))
        case "stop", (time_left, drain):
            lived.hear(a_stop(lived.newest + 1, time_left, drain=drain))
        case "answer", (which, how):
            lived.answer(which, how)
        case "time", passed:
            lived.pass_time(passed)
        case _, event:
            lived.hear(event)


@settings(max_examples=300, deadline=None)
@example(
    [("barrier", 5.0), ("barrier", 0.0), ("barrier", 5.0), ("answer", (0, 0)), ("hear", FAILED)],
    False,
    False,
)
@given(st.lists(deeds, min_size=5, max_size=40), st.booleans(), st.booleans())
def test_every_barrier_is_answered_once_and_a_cancelled_attempt_ends(
    deeds_done: list[Deed], is_cancelled: bool, holds_output: bool
) -> None:
    lived = Lived()
    lived.answer(0, 2 if holds_output else 0)
    lived.answer(0, 0)
    for deed in deeds_done:
        live(lived, deed)
    if is_cancelled:
        lived.hear(a_cancel())
    while lived.pending:
        lived.answer(0, 0)
    lived.pass_time(1000.0)
    while lived.pending:
        lived.answer(0, 0)

    attempt = lived.attempt
    is_over = isinstance(attempt.state.phase, Ended)
    assert is_over or not is_cancelled, "a cancelled attempt ends when all is carried out"
    if attempt.reported or not is_over:
        # the JobManager aborts the checkpoints of an attempt that has failed by itself
        excused = attempt.broken_off | attempt.given_up if attempt.failed else set()
        assert {*attempt.answered, *excused} >= lived.barriers, "a barrier got no answer"
