import pytest

from jobmanager.core.plan.spark_hash import hash_int


@pytest.mark.parametrize(
    ("value", "hashed"),
    # from spark.sql("SELECT hash(CAST(v AS INT))") of Spark 4.3
    [(0, 933211791), (1, -559580957), (2, 1765031574), (719, -2104047495), (-1, -1604776387)],
)
def test_it_is_what_spark_says(value: int, hashed: int) -> None:
    assert hash_int(value) == hashed
