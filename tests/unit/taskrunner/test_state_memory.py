"""How much memory RocksDB may take, by the memory and the slots of a runner."""

import pytest

from taskrunner.spark.session.session import settings
from taskrunner.spark.session.state_memory import BOUNDED, MAX_MEGABYTES, bounds


@pytest.mark.parametrize(
    ("chosen", "megabytes"),
    [
        ({"spark.master": "local[2]"}, 512),
        ({"spark.master": "local[2]", "spark.driver.memory": "4g"}, 2048),
        ({"spark.master": "local[2]", "spark.driver.memory": "600m"}, 300),
        ({"spark.master": "local[2]", "spark.driver.memory": "3000"}, 1500),
        ({"spark.master": "local[2, 4]", "spark.driver.memory": "2GB"}, 1024),
        # executors have the state there, not the driver
        ({"spark.master": "spark://there:7077", "spark.driver.memory": "8g"}, 512),
        ({"spark.master": "spark://there:7077", "spark.executor.memory": "6g"}, 3072),
        # many slots in a small heap: no slot gets less than 64 MB
        ({"spark.master": "local[32]"}, 2048),
        ({"spark.master": "local[*]"}, 1024),
        ({"spark.master": "yarn", "spark.executor.cores": "12"}, 768),
        ({"spark.master": "local"}, 512),
    ],
)
def test_the_bound_is_half_of_the_heap_and_enough_for_each_slot(
    chosen: dict[str, str], megabytes: int
) -> None:
    assert bounds(chosen, cores=16) == {BOUNDED: "true", MAX_MEGABYTES: str(megabytes)}


def test_every_job_is_bounded_unless_the_job_says_otherwise() -> None:
    def of(extra: dict[str, str]) -> dict[str, str]:
        return settings(name="a", master="local[2]", parallelism=2, extra=extra)

    assert of({})[BOUNDED] == "true"
    assert of({})[MAX_MEGABYTES] == "512"
    assert of({"spark.driver.memory": "2g"})[MAX_MEGABYTES] == "1024"
    assert of({MAX_MEGABYTES: "200"})[MAX_MEGABYTES] == "200"
    assert of({BOUNDED: "false"})[BOUNDED] == "false"
