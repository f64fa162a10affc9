"""The parallelisms that a job can have."""


def divisors(max_parallelism: int) -> list[int]:
    """Return every parallelism that `max_parallelism` key groups allow."""
    return [p for p in range(1, max_parallelism + 1) if max_parallelism % p == 0]
