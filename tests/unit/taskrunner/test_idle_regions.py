from jobmanager.core.ids import RegionId
from taskrunner.core.idle_regions import IDLE_SECONDS, IdleRegions

OUT, SIDE = RegionId("out"), RegionId("side")


def test_a_region_is_idle_when_it_has_waited_for_a_while() -> None:
    idle = IdleRegions()

    assert not idle.see(OUT, 10.0, waits=True)
    assert not idle.see(OUT, 10.0 + IDLE_SECONDS / 2, waits=True)
    assert idle.see(OUT, 10.0 + IDLE_SECONDS, waits=True)


def test_work_in_between_begins_the_wait_anew() -> None:
    idle = IdleRegions()

    idle.see(OUT, 10.0, waits=True)
    assert not idle.see(OUT, 11.0, waits=False)
    assert not idle.see(OUT, 11.5, waits=True)
    assert not idle.see(OUT, 10.0 + IDLE_SECONDS, waits=True)
    assert idle.see(OUT, 11.5 + IDLE_SECONDS, waits=True)


def test_each_region_waits_for_itself() -> None:
    idle = IdleRegions()

    idle.see(OUT, 10.0, waits=True)
    assert not idle.see(SIDE, 10.0 + IDLE_SECONDS, waits=True)
    assert idle.see(OUT, 10.0 + IDLE_SECONDS, waits=True)
