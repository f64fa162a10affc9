from jobmanager.core.ids import RegionId
from jobmanager.core.life.checkpoint import BarrierTimes
from taskrunner.core.attempt.events import BatchesOfRegion
from taskrunner.core.barrier_clock import BarrierClock

A, B = RegionId("a"), RegionId("b")


def batches(begun: int | None, committed: int | None, *, finished: bool = False) -> BatchesOfRegion:
    return BatchesOfRegion(begun, committed, is_alive=True, is_finished=finished)


def test_each_region_waits_for_the_end_of_its_own_batch() -> None:
    clock = BarrierClock()
    clock.begin(10.0)
    clock.see({A: batches(3, 2), B: batches(None, None)}, 10.0)
    clock.see({A: batches(3, 3), B: batches(None, 0)}, 10.25)

    assert clock.snapshot_taken(11.0, 11.5) == BarrierTimes({"a": 250, "b": 0}, 500)


def test_a_region_that_has_read_everything_waits_for_nothing() -> None:
    clock = BarrierClock()
    clock.begin(1.0)
    clock.see({A: batches(7, 6, finished=True)}, 1.02)

    assert clock.snapshot_taken(1.0, 1.0).waited_ms == {"a": 20}


def test_the_savepoint_of_a_stop_has_not_the_times_of_the_barrier_before() -> None:
    clock = BarrierClock()
    clock.begin(1.0)
    clock.see({A: batches(0, 0)}, 2.0)
    clock.snapshot_taken(2.0, 3.0)

    assert clock.snapshot_taken(5.0, 5.1) == BarrierTimes({}, 100)
