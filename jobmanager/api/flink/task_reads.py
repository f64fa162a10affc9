"""What the pages about a task are made of: the job, its plan, an attempt, and its runner."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from jobmanager.api.context import hex_id
from jobmanager.api.flink import states
from jobmanager.api.flink.plan_shapes import task_id, task_name
from jobmanager.api.flink.times import millis
from jobmanager.core.errors import TaskNotFound
from jobmanager.core.ids import AttemptNumber, JobId
from jobmanager.core.life.records import StoredAttempt, StoredJob
from jobmanager.core.plan.job_plan import Plan, Task
from jobmanager.core.plan.known_plans import plan_of
from jobmanager.core.task_figures import TaskFigures, percentiles, subtask_figures, task_figures
from jobmanager.services.ports.runners import Runner
from jobmanager.services.ports.unit_of_work import UnitOfWork

_IO = {
    "read-bytes": "bytes_in",
    "write-bytes": "bytes_out",
    "read-records": "records_in",
    "write-records": "records_out",
}
_TIMES = (
    "accumulated-backpressured-time",
    "accumulated-idle-time",
    "accumulated-busy-time",
)
UNKNOWN_TIME = -1


@dataclass(frozen=True, slots=True)
class TaskRead:
    """A task in one attempt of its job."""

    stored: StoredJob
    attempt: StoredAttempt
    runner: Runner | None
    plan: Plan
    task: Task

    @property
    def id(self) -> str:
        return task_id(self.stored.id.hex, self.task)

    @property
    def name(self) -> str:
        return task_name(self.stored.graph, self.task)

    @property
    def state(self) -> str:
        return states.task_state(self.attempt.attempt.status)

    @property
    def runner_id(self) -> str:
        return self.runner.id.hex if self.runner else ""

    @property
    def endpoint(self) -> str:
        return f"{self.runner.host}:{self.runner.pid or 0}" if self.runner else "(unassigned)"

    @property
    def figures(self) -> list[TaskFigures]:
        """Of each subtask."""
        return subtask_figures(self.plan, self.attempt.progress or (), self.task)

    @property
    def whole(self) -> TaskFigures:
        """Of all subtasks together."""
        return task_figures(self.plan, self.attempt.progress or (), self.task)

    def running_ms(self, now: datetime) -> int:
        """Return how long the attempt has run, without its start."""
        began, ended = self.attempt.attempt.running_at, self.attempt.attempt.ended_at
        return max(0, millis(ended or now) - millis(began)) if began else 0

    def timestamps(self) -> dict[str, int]:
        """Return when the subtasks came into each state. All subtasks of an attempt start and end
        together.
        """
        times = dict.fromkeys(states.TASK_STATES, 0)
        attempt, runner = self.attempt.attempt, self.runner
        times["CREATED"] = times["SCHEDULED"] = millis(attempt.launched_at)
        times["DEPLOYING"] = millis(runner.launched_at if runner else attempt.launched_at)
        if runner and runner.registered_at and runner.attempt == attempt.number:
            times["INITIALIZING"] = millis(max(runner.registered_at, attempt.launched_at))
        if attempt.running_at:
            times["RUNNING"] = millis(attempt.running_at)
        if attempt.ended_at:
            times[self.state] = millis(attempt.ended_at)
        return times

    def durations(self, now: datetime) -> dict[str, int]:
        """Return how long the subtasks were in each state that they came into."""
        order = ("CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING")
        times = self.timestamps()
        entered = [(state, times[state]) for state in order if times[state]]
        end = millis(self.attempt.attempt.ended_at or now)
        ends = [at for _, at in entered[1:]] + [end]
        return {state: max(0, until - at) for (state, at), until in zip(entered, ends, strict=True)}

    def span(self, now: datetime) -> dict[str, int]:
        began, ended = self.attempt.attempt.launched_at, self.attempt.attempt.ended_at
        return {
            "start-time": millis(began),
            "end-time": millis(ended) if ended else -1,
            "duration": millis(ended or now) - millis(began),
        }


async def read_task(
    uow: UnitOfWork, job_id: JobId, vertex: str, number: AttemptNumber | None = None
) -> TaskRead:
    """Read a task in the newest attempt, or in the attempt with this number. Raises `JobNotFound`,
    `TaskNotFound`.
    """
    hex_id("vertexid", vertex)
    stored = await uow.jobs.get(job_id)
    attempt = await uow.attempts.get(job_id, number or stored.job.attempt)
    runner = await uow.runners.of_attempt(job_id, attempt.attempt.number)
    plan = plan_of(stored.graph, stored.parallelism)
    for task in plan.tasks:
        if task_id(job_id.hex, task) == vertex:
            return TaskRead(stored, attempt, runner, plan, task)
    raise TaskNotFound(f"job {job_id.hex} has no task {vertex}")


def io_metrics(figures: TaskFigures, running_ms: int) -> dict[str, Any]:
    """Return Flink's figures of a task. A count that is unknown is 0 and not `complete`, a time
    that is unknown is -1, or NaN where Flink allows that.
    """
    counts: dict[str, Any] = {}
    for flinks, ours in _IO.items():
        value = getattr(figures, ours)
        counts[flinks] = value or 0
        counts[f"{flinks}-complete"] = value is not None
    idle = figures.idle_ms(running_ms)
    return {
        **counts,
        "accumulated-backpressured-time": (
            UNKNOWN_TIME if figures.backpressured_ms is None else figures.backpressured_ms
        ),
        "accumulated-idle-time": UNKNOWN_TIME if idle is None else idle,
        "accumulated-busy-time": "NaN" if figures.busy_ms is None else float(figures.busy_ms),
    }


def aggregate(figures: list[TaskFigures], read: TaskRead, now: datetime) -> dict[str, Any]:
    """Return the percentiles of all figures over subtasks; unknown figures are -1."""
    shown = [io_metrics(one, read.running_ms(now)) for one in figures]
    metrics = {}
    for name in _TIMES:
        metrics[name] = percentiles([-1 if one[name] == "NaN" else int(one[name]) for one in shown])
    for name, ours in _IO.items():
        known = [getattr(one, ours) for one in figures]
        metrics[name] = percentiles([-1 if one is None else one for one in known])
    spans = read.durations(now)
    return {
        "metrics": metrics,
        "status-duration": {
            state: percentiles([span] * len(figures)) for state, span in spans.items()
        },
    }
