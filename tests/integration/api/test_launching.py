"""Two leaders, one after the other, with one launch between them: one runner runs."""

import pytest

from jobmanager.services.ports.runners import Launched
from tests.support.builders import a_document
from tests.support.cluster import Cluster, PlayedRunner

pytestmark = pytest.mark.anyio


class LeaderGone(BaseException):
    """The process is killed here."""


async def a_runner_nobody_noted(cluster: Cluster, job: str) -> PlayedRunner:
    """The leader dies after it started the process, and before it could write that down."""
    launch = cluster.bench.launch

    async def launch_and_die(*given: object) -> Launched:
        await launch(*given)  # type: ignore[arg-type]
        raise LeaderGone

    cluster.bench.launch = launch_and_die  # type: ignore[method-assign, assignment]
    with pytest.raises(LeaderGone):
        await cluster.dispatch.run_once()
    cluster.bench.launch = launch  # type: ignore[method-assign]
    return await cluster.noted_runner(job)


async def pid_of(cluster: Cluster, runner: PlayedRunner) -> int | None:
    async with cluster.database.unit_of_work() as uow:
        return (await uow.runners.get(runner.id)).pid


async def test_a_process_that_the_last_leader_started_is_found(cluster: Cluster) -> None:
    job = await cluster.submit(a_document())
    runner = await a_runner_nobody_noted(cluster, job)
    assert await pid_of(cluster, runner) is None

    cluster.bench.running[runner.id] = Launched("bench", 4711, 1.0, "/nowhere")
    await cluster.dispatch.run_once()

    assert await pid_of(cluster, runner) == 4711
    assert cluster.bench.secrets[runner.id] == runner.secret  # no other was launched
    await runner.run()
    assert await cluster.state(job) == "RUNNING"


async def test_one_that_is_not_found_is_launched_again_and_the_first_is_turned_away(
    cluster: Cluster,
) -> None:
    job = await cluster.submit(a_document())
    first = await a_runner_nobody_noted(cluster, job)

    second = await cluster.runner(job)

    assert second.id == first.id
    assert second.secret != first.secret
    assert (await first.register()).status_code == 401
    await second.run()
    assert await cluster.state(job) == "RUNNING"


async def test_one_that_has_registered_is_there(cluster: Cluster) -> None:
    job = await cluster.submit(a_document())
    runner = await a_runner_nobody_noted(cluster, job)

    await runner.run()  # on another machine, say, where it cannot be found
    await cluster.dispatch.run_once()

    assert cluster.bench.secrets[runner.id] == runner.secret
    assert await pid_of(cluster, runner) == 1
    assert await cluster.state(job) == "RUNNING"
