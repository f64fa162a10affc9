"""The parallelisms that a job can have."""


def divisors(max_parallelism: int) -> list[int]:
    """Return every parallelism that `max_parallelism` key groups allow."""
    return [p for p in range(1, max_parallelism + 1) if max_parallelism % p == 0]


def nearest_parallelism(max_parallelism: int, least: int, most: int) -> int:
    """Return the largest possible parallelism up to `most`. If it is smaller than `least`, return
    the smallest that is not; if there is none, the largest of all.
    """
    possible = divisors(max_parallelism)
    found = max(one for one in possible if one <= max(most, 1))
    if found >= least:
        return found
    return min((one for one in possible if one >= least), default=possible[-1])
