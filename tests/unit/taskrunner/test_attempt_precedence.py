"""What goes before what, as two tables: every event in every phase, and two events in a row."""

from collections.abc import Callable, Mapping

import pytest

from taskrunner.core.attempt import events
from taskrunner.core.attempt.events import Event
from taskrunner.core.attempt.instructions import Instruction
from taskrunner.core.attempt.phases import Ended
from tests.unit.taskrunner.attempts import (
    DISMISSED,
    FAILED,
    FINISHED,
    REPLACED,
    Driven,
    a_cancel,
    a_stop,
    answers_to,
    cancelling,
    ending,
    failure,
    preparing,
    running,
    saving,
    starting,
    stopping,
)

RUNS_ON = "runs on"
SILENT = "says nothing"

WORDS: Mapping[str, tuple[Event, ...]] = {
    "stop": (a_stop(8),),
    "cancel": (a_cancel(),),
    "failure": (FAILED,),
    "replaced": (REPLACED,),
    "dismissed": (DISMISSED,),
    "finished": FINISHED,
}
PHASES: Mapping[str, Callable[[], Driven]] = {
    "preparing": preparing,
    "starting": starting,
    "running": running,
    "stopping": stopping,
    "saving": saving,
    "cancelling": cancelling,
    "ending": ending,
}

# A failure before the queries run is the preparation's or the start's. A job that is prepared has
# nothing that could finish.
IN_EACH_PHASE = """
             stop       cancel     failure    replaced      dismissed     finished
preparing    stopped    cancelled  failed     says_nothing  says_nothing  runs_on
starting     stopped    cancelled  failed     says_nothing  says_nothing  finished
running      stopped    cancelled  failed     says_nothing  says_nothing  finished
stopping     stopped    cancelled  failed     says_nothing  says_nothing  stopped
saving       stopped    cancelled  stopped    says_nothing  says_nothing  stopped
cancelling   cancelled  cancelled  cancelled  says_nothing  says_nothing  cancelled
ending       failed     failed     failed     says_nothing  failed        failed
"""
# down: what came first, to a running job; across: what came right after it
ONE_AFTER_THE_OTHER = """
             stop          cancel        failure       replaced      dismissed     finished
stop         stopped       cancelled     failed        says_nothing  says_nothing  stopped
cancel       cancelled     cancelled     cancelled     says_nothing  says_nothing  cancelled
failure      failed        failed        failed        says_nothing  failed        failed
replaced     says_nothing  says_nothing  says_nothing  says_nothing  says_nothing  says_nothing
dismissed    says_nothing  says_nothing  says_nothing  says_nothing  says_nothing  says_nothing
finished     finished      finished      finished      says_nothing  finished      finished
"""


def cells(table: str) -> list[tuple[str, str, str]]:
    head, *lines = [line.split() for line in table.strip().splitlines()]
    return [
        (row[0], column, expected.replace("_", " "))
        for row in lines
        for column, expected in zip(head, row[1:], strict=True)
    ]


def conclude(attempt: Driven) -> str:
    """Answers every instruction that was given, as if all went well; returns the ending. What
    was answered before is answered again, which changes nothing.
    """
    answered = 0
    while answered < len(attempt.done):
        instruction: Instruction = attempt.done[answered]
        answered += 1
        attempt.tell(*answers_to(instruction))
    if not isinstance(attempt.state.phase, Ended):
        return RUNS_ON
    assert len(attempt.endings) <= 1
    return attempt.endings[0].event if attempt.endings else SILENT


@pytest.mark.parametrize(("phase", "word", "expected"), cells(IN_EACH_PHASE))
def test_an_event_in_a_phase(phase: str, word: str, expected: str) -> None:
    attempt = PHASES[phase]()
    told = WORDS[word]
    if word == "failure" and phase == "preparing":
        told = (events.PreparationFailed(failure()),)
    if word == "failure" and phase == "starting":
        told = (events.StartFailed(failure()),)

    attempt.tell(*told)

    assert conclude(attempt) == expected


@pytest.mark.parametrize(("first", "second", "expected"), cells(ONE_AFTER_THE_OTHER))
def test_two_events_one_after_the_other(first: str, second: str, expected: str) -> None:
    attempt = running()
    word = (a_stop(9),) if (first, second) == ("stop", "stop") else WORDS[second]

    attempt.tell(*WORDS[first], *word)

    assert conclude(attempt) == expected
