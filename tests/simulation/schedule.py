"""One schedule: a number of steps with faults, then steps without, then the final checks."""

import traceback
from collections.abc import Sequence
from dataclasses import dataclass

from tests.simulation import liveness, shrinking
from tests.simulation.choices import Choices
from tests.simulation.invariants import (
    InvariantBroken,
)
from tests.simulation.world import World

STEPS = 320
UNEXPECTED = "0 no party meets what it does not expect"
_MOST_CALM_STEPS = 4_000


@dataclass(frozen=True, slots=True)
class Failure:
    invariant: str
    detail: str
    choices: tuple[int, ...]

    @property
    def deviations(self) -> int:
        """How many choices are not the dull one."""
        return sum(1 for one in self.choices if one)


@dataclass(frozen=True, slots=True)
class Outcome:
    failure: Failure | None
    steps: int
    story: tuple[str, ...] = ()


def run(
    seed: int | None = None,
    choices: Sequence[int] | None = None,
    *,
    is_told: bool = False,
    steps: int = STEPS,
) -> Outcome:
    """One schedule from a seed, or from choices that were made before."""
    drawn = Choices(seed, choices)
    world: World | None = None
    taken = 0
    try:
        world = World(drawn, is_told=is_told)
        length = steps // 2 + drawn.below(steps)
        for _ in range(length):
            taken += 1
            world.maybe_fault()
            if not world.scheduler.step(world.faults.leaps):
                break
            world.invariants.check()
        taken += _calm_down(world)
    except InvariantBroken as broken:
        failure = Failure(broken.invariant, broken.detail, tuple(drawn.made))
        return Outcome(failure, taken, tuple(world.story.lines) if world else ())
    except Exception as error:
        where = "".join(traceback.format_exception(error)[-3:])
        unexpected = f"{UNEXPECTED} ({type(error).__name__})"
        failure = Failure(unexpected, f"{error}\n{where}", tuple(drawn.made))
        return Outcome(failure, taken, tuple(world.story.lines) if world else ())
    return Outcome(None, taken, tuple(world.story.lines))


def shrunk(failure: Failure, most_tries: int = shrinking.MOST_TRIES) -> Outcome:
    """The simplest schedule found that breaks the same invariant, with its story."""

    def still_fails(choices: Sequence[int]) -> bool:
        found = run(choices=choices).failure
        return found is not None and found.invariant == failure.invariant

    simplest = shrinking.shrink(failure.choices, still_fails, most_tries)
    return run(choices=simplest, is_told=True)


def _calm_down(world: World) -> int:
    """Without faults everything comes to rest, and then the output is compared."""
    world.heal()
    unsettled: InvariantBroken | None = None
    for taken in range(_MOST_CALM_STEPS):
        world.scheduler.step(0)
        world.invariants.check()
        if taken % 10 == 0:
            unsettled = liveness.unsettled(world)
            if unsettled is None:
                return taken
    assert unsettled is not None
    raise unsettled
