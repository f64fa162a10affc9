"""A process serves one runner at a time, and only after the runner before has exited."""

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.ids import RunnerId
from jobmanager.core.reused_process import (
    ExitRecorded,
    ProcessDoubted,
    ProcessEvent,
    ProcessOffered,
    ProcessPhase,
    ProcessTaken,
    ReturnAnnounced,
    ReusedProcess,
    TakeConfirmed,
    step,
)

FIRST, SECOND, THIRD = (RunnerId(UUID(int=number)) for number in (1, 2, 3))
ROUND = (ReturnAnnounced, ProcessOffered, ExitRecorded)


def a_process() -> ReusedProcess:
    return ReusedProcess(FIRST, FIRST)


def after(process: ReusedProcess, *events: ProcessEvent) -> ReusedProcess:
    for event in events:
        process = step(process, event)
    return process


def returned(process: ReusedProcess, runner: RunnerId) -> ReusedProcess:
    return after(process, *(kind(runner) for kind in ROUND))


def test_a_process_that_returned_serves_the_next_runner() -> None:
    idle = returned(a_process(), FIRST)
    assert (idle.phase, idle.runner, idle.served) == (ProcessPhase.IDLE, None, 1)

    serving = after(idle, ProcessTaken(SECOND), TakeConfirmed(SECOND))

    assert (serving.phase, serving.runner, serving.served) == (ProcessPhase.SERVING, SECOND, 2)
    assert serving.id == FIRST
    assert serving.serves(SECOND)
    assert not serving.serves(FIRST)


def test_an_idle_process_is_no_runner() -> None:
    idle = returned(a_process(), FIRST)

    assert not idle.serves(FIRST)


def test_a_runner_that_has_not_exited_is_still_served() -> None:
    offered = after(a_process(), ReturnAnnounced(FIRST), ProcessOffered(FIRST))

    assert offered.is_expected
    assert offered.serves(FIRST)


@pytest.mark.parametrize(
    "events",
    [
        [ProcessOffered(FIRST)],
        [ReturnAnnounced(SECOND)],
        [ReturnAnnounced(FIRST), ReturnAnnounced(FIRST)],
        [ProcessTaken(SECOND)],
        [ReturnAnnounced(FIRST), ProcessOffered(FIRST), ProcessTaken(SECOND)],
        [ExitRecorded(FIRST)],
        [TakeConfirmed(FIRST)],
    ],
)
def test_what_is_out_of_order_dooms_a_process(events: list[ProcessEvent]) -> None:
    assert after(a_process(), *events).phase is ProcessPhase.DOOMED


_EVENTS = st.one_of(
    st.just(ProcessDoubted()),
    *(
        st.builds(kind, st.sampled_from([FIRST, SECOND, THIRD]))
        for kind in (*ROUND, ProcessTaken, TakeConfirmed)
    ),
)


@given(st.lists(_EVENTS, max_size=30))
def test_whatever_happens_the_exit_of_a_runner_comes_before_the_next(
    events: list[ProcessEvent],
) -> None:
    process, exited = a_process(), set[RunnerId]()
    for event in events:
        before, process = process, step(process, event)
        if process.phase is ProcessPhase.DOOMED:
            assert step(process, event).phase is ProcessPhase.DOOMED
            return
        if isinstance(event, ExitRecorded):
            exited.add(event.runner)
        if process.runner != before.runner and process.runner is not None:
            assert before.runner is None
            assert process.served == before.served + 1
        # whoever the process served before has exited
        assert not before.runner or before.runner == process.runner or before.runner in exited


@given(st.lists(st.uuids(), max_size=5, unique=True))
def test_the_count_is_of_runners(runners: list[UUID]) -> None:
    process, last = a_process(), FIRST
    for one in map(RunnerId, runners):
        process = after(returned(process, last), ProcessTaken(one), TakeConfirmed(one))
        last = one

    assert process.served == 1 + len(runners)
    assert process.phase is ProcessPhase.SERVING
    assert process.serves(last)
    assert not process.serves(RunnerId(uuid4()))
