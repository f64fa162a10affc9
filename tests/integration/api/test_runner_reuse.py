"""A runner's process that serves another runner: what the database says of both."""

from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy.exc import IntegrityError

from jobmanager.core.ids import AttemptNumber, RunnerId
from jobmanager.services import runners
from jobmanager.services.ports.runners import Runner
from tests.support.builders import a_document
from tests.support.cluster import Cluster, PlayedRunner

pytestmark = pytest.mark.anyio

FIRST = AttemptNumber(1)
STAYED = "its process stayed"


async def returned(cluster: Cluster, runner: PlayedRunner, attempt: int = 1) -> bool:
    return await runners.returned(
        cluster.database.unit_of_work(), runner.id, AttemptNumber(attempt), STAYED, cluster.clock()
    )


async def row(cluster: Cluster, runner: RunnerId) -> Runner:
    async with cluster.database.unit_of_work() as uow:
        return await uow.runners.get(runner)


async def finished(
    cluster: Cluster, document: dict[str, Any] | None = None
) -> tuple[str, PlayedRunner]:
    job, runner = await cluster.running(document or a_document())
    await runner.say("finished")
    return job, runner


async def launched_in(cluster: Cluster, process: RunnerId) -> tuple[str, RunnerId]:
    """A job whose runner is served by a process that served another."""
    runner = RunnerId(uuid4())
    cluster.bench.warm.append(runner)
    cluster.bench.served_before[runner] = process
    job = await cluster.submit(a_document())
    await cluster.dispatch.run_once()
    return job, runner


async def test_a_runner_whose_process_stays_has_exited(cluster: Cluster) -> None:
    job, runner = await finished(cluster)

    assert await returned(cluster, runner)

    found = await row(cluster, runner.id)
    assert found.exited_at is not None
    assert found.exit_description == STAYED
    assert await cluster.state(job) == "FINISHED"


async def test_a_return_whose_answer_was_lost_is_recorded_once(cluster: Cluster) -> None:
    _, runner = await finished(cluster)
    await returned(cluster, runner)
    exited_at = (await row(cluster, runner.id)).exited_at
    cluster.clock.pass_time(5)

    assert await returned(cluster, runner)
    assert (await row(cluster, runner.id)).exited_at == exited_at


async def test_a_runner_that_was_seen_to_exit_does_not_return(cluster: Cluster) -> None:
    _, runner = await finished(cluster)
    await cluster.exit(runner)

    assert not await returned(cluster, runner)


async def test_a_process_whose_attempt_has_not_ended_is_not_reused(cluster: Cluster) -> None:
    job, runner = await cluster.running(a_document())

    assert not await returned(cluster, runner)
    assert (await row(cluster, runner.id)).exited_at is None
    assert await cluster.state(job) == "RUNNING"


async def test_a_process_that_had_another_attempt_is_not_reused(cluster: Cluster) -> None:
    _, runner = await finished(cluster)

    assert not await returned(cluster, runner, attempt=2)
    assert (await row(cluster, runner.id)).exited_at is None


async def test_a_process_that_may_have_run_users_code_is_not_reused(cluster: Cluster) -> None:
    source = a_document()["vertices"][0]
    query = "SELECT reflect('java.lang.System', 'gc') AS r FROM bids"
    vertices = [
        source,
        {"id": "called", "op": "sql", "inputs": [source["id"]], "query": query},
        {"id": "out", "op": "sink", "inputs": ["called"], "connector": "console"},
    ]
    _, runner = await finished(cluster, {**a_document(), "vertices": vertices})

    assert runner.id not in cluster.bench.expected
    assert not await returned(cluster, runner)


async def test_the_next_runner_has_an_id_and_a_secret_of_its_own(cluster: Cluster) -> None:
    first_job, first = await finished(cluster)
    await returned(cluster, first)

    job, second = await launched_in(cluster, first.id)

    found = await row(cluster, second)
    assert (found.process, found.process_id) == (first.id, first.id)
    assert cluster.bench.secrets[second] != first.secret
    assert cluster.bench.expected == {first.id: FIRST, second: FIRST}
    history = (await cluster.get(f"/v1/jobs/{job}/history"))["items"]
    [cause] = [one["cause"] for one in history if one["kind"] == "runner_launched"]
    assert cause == "on a warm runner, in a process that served a job before"
    runner = await cluster.noted_runner(job)
    await runner.run()
    assert await cluster.state(job) == "RUNNING"
    assert await cluster.state(first_job) == "FINISHED"


async def test_a_process_serves_one_runner_at_a_time(cluster: Cluster) -> None:
    process = RunnerId(uuid4())
    _, runner = await launched_in(cluster, process)

    other = Runner(
        id=RunnerId(uuid4()),
        job_id=(await row(cluster, runner)).job_id,
        attempt=FIRST,
        token_hash="",
        host="bench",
        log_path="",
        launched_at=cluster.clock(),
        process=process,
    )
    async with cluster.database.unit_of_work() as uow:
        with pytest.raises(IntegrityError):
            await uow.runners.add(other)


async def test_a_launch_whose_process_had_to_be_replaced_says_so(cluster: Cluster) -> None:
    runner = RunnerId(uuid4())
    cluster.bench.warm.append(runner)
    cluster.bench.served_before[runner] = process = RunnerId(uuid4())
    launch = cluster.bench.launch

    async def replaced(*given: Any) -> Any:
        assert (await row(cluster, runner)).process == process
        cluster.bench.served_before.clear()  # it died when it was handed over
        return await launch(*given)

    cluster.bench.launch = replaced  # type: ignore[method-assign, assignment]
    await cluster.submit(a_document())
    await cluster.dispatch.run_once()

    found = await row(cluster, runner)
    assert (found.process, found.pid) == (None, 1)
