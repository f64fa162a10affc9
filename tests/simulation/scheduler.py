"""Runs the tasks of all parties in one process without threads: the schedule decides which task
continues.

A task is a generator. Wherever it yields, anything else may happen before it continues: another
task, an hour, or the end of its party. The yielded value says when the task can continue:

    yield None                  at once, but other tasks may come first
    yield 1500                  when the true time is 1500 ms
    yield signal                when the signal fires
    yield (signal, 1500)        whichever comes first
"""

from collections.abc import Generator
from heapq import heappop, heappush
from typing import TypeVar

from tests.simulation.choices import Choices

T = TypeVar("T")


class Signal:
    """Wakes the tasks that wait for it. A signal that nobody waits for is lost."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[tuple[Task, int]] = []

    def add(self, task: "Task") -> None:
        self._waiting.append((task, task.ticket))

    def fire(self) -> None:
        waiting, self._waiting = self._waiting, []
        for task, ticket in waiting:
            if ticket == task.ticket and not task.is_over:
                task.wake()


Wait = int | Signal | tuple[Signal, int] | None
Steps = Generator[Wait, None, T]


class Party:
    """Whoever has tasks, and can crash or freeze with all of them."""

    def __init__(self, name: str, scheduler: "Scheduler") -> None:
        self.name = name
        self.scheduler = scheduler
        self.is_up = True
        self.is_frozen = False
        self.tasks: dict[Task, None] = {}

    def spawn(self, name: str, steps: Steps[None]) -> "Task":
        task = Task(self, name, steps)
        self.tasks[task] = None
        task.wake()
        return task

    def crash(self) -> None:
        """Everything in memory is gone, in the middle of whatever was under way."""
        self.is_up = False
        self.is_frozen = False
        self.end_tasks()

    def end_tasks(self) -> None:
        for task in list(self.tasks):
            task.end()


class Task:
    __slots__ = ("is_over", "is_running", "name", "party", "steps", "ticket")

    def __init__(self, party: Party, name: str, steps: Steps[None]) -> None:
        self.party = party
        self.name = name
        self.steps = steps
        self.ticket = 0
        """Ascends with every wake-up: what else would have woken the task finds another number."""
        self.is_over = False
        self.is_running = False

    def wake(self) -> None:
        self.ticket += 1
        self.party.scheduler.ready.append(self)

    def end(self) -> None:
        """Ends the task where it is. One that ends itself is over at its next yield."""
        if self.is_over:
            return
        self.is_over = True
        self.party.tasks.pop(self, None)
        if not self.is_running:
            self.steps.close()


class Scheduler:
    def __init__(self, choices: Choices) -> None:
        self.now = 0
        """The true time, in milliseconds, which no party can read."""
        self.ready: list[Task] = []
        self._choices = choices
        self._sleeping: list[tuple[int, int, Task, int]] = []
        self._order = 0

    def step(self, one_in_leaps: int) -> bool:
        """One task goes on, up to its next yield, or time passes. False: nothing is left."""
        self.now += 3
        self._wake_sleepers()
        eligible = self._eligible()
        if not eligible:
            return self._leap()
        if self._choices.one_in(one_in_leaps):
            self._leap()
        # Every second time the task that has waited longest, else any.
        place = max(0, self._choices.below(2 * len(eligible)) - len(eligible))
        self._go_on(eligible[place])
        return True

    def _eligible(self) -> list[Task]:
        ready = [task for task in self.ready if not task.is_over]
        self.ready = ready
        return [task for task in ready if not task.party.is_frozen]

    def _go_on(self, task: Task) -> None:
        self.ready.remove(task)
        task.is_running = True
        try:
            wait = next(task.steps)
        except StopIteration:
            task.is_over = True
            task.party.tasks.pop(task, None)
            return
        finally:
            task.is_running = False
        if task.is_over:
            task.steps.close()
        elif wait is None:
            task.wake()
        elif isinstance(wait, int):
            self._sleep(task, wait)
        elif isinstance(wait, Signal):
            wait.add(task)
        else:
            wait[0].add(task)
            self._sleep(task, wait[1])

    def _sleep(self, task: Task, until: int) -> None:
        self._order += 1
        heappush(self._sleeping, (until, self._order, task, task.ticket))

    def _leap(self) -> bool:
        """Time passes until the next task is due."""
        while self._sleeping:
            until, _, task, ticket = self._sleeping[0]
            if task.is_over or ticket != task.ticket or task.party.is_frozen:
                heappop(self._sleeping)
                if not task.is_over and ticket == task.ticket:
                    task.wake()  # when it thaws
                continue
            self.now = max(self.now, until)
            self._wake_sleepers()
            return True
        return False

    def _wake_sleepers(self) -> None:
        while self._sleeping and self._sleeping[0][0] <= self.now:
            _, _, task, ticket = heappop(self._sleeping)
            if not task.is_over and ticket == task.ticket:
                task.wake()
