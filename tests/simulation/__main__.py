"""`make simulate`: runs schedules, one seed after the other.

make simulate                   until Ctrl-C, or until a schedule breaks an invariant
SCHEDULES=2000 make simulate    stop after 2000 schedules
SEED=4711 make simulate         one schedule, printed message by message; shrunk, if it fails
MUTATION='acks are counted' …   with a deliberate fault in the rules (docs/simulation.md)
"""

import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from itertools import count

from tests.simulation import schedule
from tests.simulation.mutations import MUTATIONS

_CHUNK = 100
_SAY_EVERY_SECONDS = 10.0


def main() -> int:
    seed, schedules = os.environ.get("SEED"), os.environ.get("SCHEDULES")
    if seed:
        with _mutation():
            return _tell(int(seed))
    first = int(time.time()) * 1_000_000
    try:
        return _search(first, int(schedules) if schedules else None)
    except KeyboardInterrupt:
        _say("stopped")
        return 0


def _search(first: int, schedules: int | None) -> int:
    workers = os.cpu_count() or 1
    chunks = _chunks(first, schedules)
    done, said_at, began_at = 0, time.monotonic(), time.monotonic()
    _say(f"schedules from seed {first}, {workers} processes; Ctrl-C stops")
    with ProcessPoolExecutor(workers) as pool:
        running: dict[Future[int | None], int] = {}
        while True:
            while len(running) < 2 * workers and (chunk := next(chunks, None)) is not None:
                running[pool.submit(_failing_seed, *chunk)] = chunk[1]
            if not running:
                break
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for one in finished:
                done += running.pop(one)
                if (failing := one.result()) is not None:
                    pool.shutdown(cancel_futures=True)
                    with _mutation():
                        return _tell(failing)
            if time.monotonic() - said_at > _SAY_EVERY_SECONDS:
                said_at = time.monotonic()
                _say(f"{done} schedules, {done / (said_at - began_at):.0f} a second: all held")
    _say(f"{done} schedules in {time.monotonic() - began_at:.0f} s: every invariant held")
    return 0


def _chunks(first: int, schedules: int | None) -> Iterator[tuple[int, int]]:
    for start in count(0, _CHUNK):
        left = _CHUNK if schedules is None else min(_CHUNK, schedules - start)
        if left <= 0:
            return
        yield first + start, left


def _failing_seed(first: int, schedules: int) -> int | None:
    with _mutation():
        for seed in range(first, first + schedules):
            if schedule.run(seed).failure is not None:
                return seed
    return None


def _tell(seed: int) -> int:
    outcome = schedule.run(seed, is_told=True)
    if outcome.failure is None:
        _say("\n".join(outcome.story))
        _say(f"seed {seed}: {outcome.steps} steps, every invariant held")
        return 0
    simplest = schedule.shrunk(outcome.failure)
    assert simplest.failure is not None
    _say("\n".join(simplest.story))
    before, after = outcome.failure.deviations, simplest.failure.deviations
    _say(f"✗ invariant {simplest.failure.invariant}: {simplest.failure.detail}")
    _say(f"seed {seed}, shrunk from {before} choices to {after}: SEED={seed} make simulate")
    return 1


def _mutation() -> AbstractContextManager[None]:
    wanted = os.environ.get("MUTATION")
    if not wanted:
        return nullcontext()
    return next(one for one in MUTATIONS if wanted in one.name).applied()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
