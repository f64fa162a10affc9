"""A runner that is kept: the next attempt in the same process and the same JVM."""

import pyarrow.dataset

from jobmanager.protocol.messages import Exit
from tests.integration.spark.runner_process import ROWS, Site, a_graph, ids, restore_point


def test_a_kept_runner_goes_on_at_another_parallelism_in_the_same_jvm(site: Site) -> None:
    # Given a runner whose attempt was stopped, and which was to stay
    runner = site.launch()
    runner.run(1, a_graph())
    runner.wait_for_output("raw", 10)
    runner.stop(1, "one", keep_runner=True)
    runner.report("stopped", "failed")
    jvms = runner.jvms()
    # When it is told to go on with twice as many subtasks
    runner.run(
        2,
        a_graph(),
        parallelism=4,
        restore_point=restore_point(site.root / "savepoints/one"),
        base_attempt=2,
    )
    prepared = runner.report("prepared", "failed", attempt=2).body
    runner.report("finished", "failed", attempt=2)
    # Then Spark is the same, and each row was counted once
    assert runner.jvms() == jvms
    assert prepared.event == "prepared"
    assert [(r.region, r.from_parallelism, r.to_parallelism) for r in prepared.repartitioned] == [
        ("out", 2, 4)
    ]
    assert runner.reports() == [
        (1, "prepared"),
        (1, "running"),
        (1, "stopped"),
        (2, "prepared"),
        (2, "running"),
        (2, "finished"),
    ]
    windows = pyarrow.dataset.dataset(site.root / "out").to_table().to_pylist()
    assert sum(w["n"] for w in windows) == ROWS
    assert sum(w["total"] for w in windows) == sum(range(ROWS))
    assert sorted(ids(site.root / "raw")) == list(range(ROWS))
    runner.jobmanager.direct(site.job, 2, Exit(reason="done"))
    assert runner.process.wait(30) == 0
