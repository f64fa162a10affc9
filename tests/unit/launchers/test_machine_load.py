from jobmanager.launchers.machine_load import MachineLoad


def test_a_moment_of_rest_between_two_stages_does_not_make_a_machine_idle() -> None:
    used = iter([0.0, *[100.0] * 5, 30.0, *[10.0] * 3])
    load = MachineLoad(lambda: next(used))

    assert [load.is_busy() for _ in range(9)] == [True] * 6 + [False] * 3


def test_an_idle_machine_is_not_busy() -> None:
    assert not MachineLoad(lambda: 20.0).is_busy()
