"""The Python clients against real routes, use cases and Postgres; the runners are played."""

import asyncio
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from jobmanager.client import AsyncClient, Client, InvalidRequest, MissingResource, UnknownJob
from tests.support.builders import a_document, a_document_with
from tests.support.played_crew import a_served_crew

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def url(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with a_served_crew(database_url, tmp_path_factory.mktemp("storage")) as served:
        yield served.url


def test_a_job_from_submission_to_a_start_from_its_savepoint(url: str) -> None:
    with Client(url) as client:
        job = client.submit(a_document(name="first", max_parallelism=8))
        assert job.wait(state="running", timeout=60) == "running"
        assert client.jobs["first"].id == job.id
        assert job.checkpoint()["status"] == "completed"
        assert job.rescale(4)["parallelism"] == {"from": 2, "to": 4}
        assert job.graph()["parallelism"] == 4
        savepoint = job.savepoint()
        assert client.get_savepoint(savepoint)["job"] == job.id
        last = job.stop()
        assert job.state == "finished"
        assert job.wait() == "finished"

        again = client.submit(a_document(name="second", max_parallelism=8), savepoint=last)
        again.wait(state="running", timeout=60)
        assert again.cancel() == "cancelled"
        card = job._repr_html_()

    assert "first" in card
    assert "<svg" in card
    assert "parallelism 4" in card


def test_the_same_over_asyncio_with_events(url: str) -> None:
    async def lived() -> list[str]:
        async with AsyncClient(url) as client:
            job = await client.submit(a_document_with("out", path="elsewhere") | {"name": "third"})
            kinds = []
            async for event in job.events(after=0):
                kinds.append(event.kind)
                if event.kind == "attempt_running":
                    break
            await job.wait(state="running", timeout=60)
            await client.jobs["third"].stop()
            return [*kinds, await job.state()]

    kinds = asyncio.run(asyncio.wait_for(lived(), 120))

    assert kinds[0] == "job_submitted"
    assert kinds[-1] == "finished"


def test_refusals_are_errors_with_their_type(url: str) -> None:
    with Client(url) as client:
        with pytest.raises(InvalidRequest) as invalid:
            client.submit({"name": "none"})
        with pytest.raises(MissingResource):
            client.get_job_status("0" * 32)
        with pytest.raises(UnknownJob):
            client.jobs["nobody"]
        assert client.dry_run({"name": "none"})["faults"]

    assert invalid.value.kind == "InvalidJobGraph"
    assert invalid.value.faults
    assert invalid.value.problem["faults"]


def test_files_that_a_graph_names_are_uploaded(url: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("A = 1\n")
    with Client(url) as client:
        job = client.submit(
            a_document_with("out", path="uploads") | {"name": "code", "artifacts": ["mine.py"]},
            directory=tmp_path,
        )
        [artifact] = job.graph()["graph"]["artifacts"]

        assert client.get_artifact(artifact)["name"] == "mine.py"
        job.wait(state="running", timeout=60)
        job.cancel()


def test_the_tasks_of_the_airflow_example(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow is not installed here: its decorators are stood in for, the tasks are as written."""
    (sdk := ModuleType("airflow.sdk")).__dict__.update(
        task=lambda *given, **settings: given[0] if given else lambda function: function,
        dag=lambda **settings: lambda function: lambda: None,
        get_current_context=lambda: {"run_id": "nightly-1"},
    )
    monkeypatch.setitem(sys.modules, "airflow", ModuleType("airflow"))
    monkeypatch.setitem(sys.modules, "airflow.sdk", sdk)
    monkeypatch.setenv("HEADGATE_URL", url)
    tasks = runpy.run_path(str(EXAMPLES / "airflow_dag.py"))
    with Client(url) as client:
        client.submit(yaml.safe_load((EXAMPLES / "quickstart.yaml").read_text()))
        client.jobs["quickstart"].wait(state="running", timeout=60)

        savepoint = tasks["stop_with_savepoint"]("quickstart")
        job = tasks["start_from_savepoint"]("quickstart.yaml", savepoint)

        assert tasks["start_from_savepoint"]("quickstart.yaml", savepoint) == job
        assert client.jobs[job].cancel() == "cancelled"
