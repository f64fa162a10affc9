"""An Airflow DAG that runs a batch job every night, then deploys a new graph of a streaming job.

Airflow 3, with the package `headgate` installed beside it. The server and its token are those of
HEADGATE_URL and HEADGATE_TOKEN of the workers, or of a context (docs/command-line.md).

A task fails if its job fails: `wait` raises `JobEnded` with the job's reason. A task that Airflow
repeats submits nothing twice: the run's id is the key of the request.
"""

from datetime import datetime, timedelta
from pathlib import Path

import yaml
from airflow.sdk import dag, get_current_context, task

from jobmanager.client import Client

GRAPHS = Path(__file__).parent


def run_id() -> str:
    return str(get_current_context()["run_id"])


@task(retries=3, retry_delay=timedelta(seconds=10))
def run_batch_job(file: str) -> str:
    """Run a job that has an end, and return its id."""
    graph = yaml.safe_load((GRAPHS / file).read_text())
    with Client() as client:
        job = client.submit(graph, directory=GRAPHS, idempotency_key=f"{graph['name']}:{run_id()}")
        job.wait(state="finished", timeout=6 * 3600)
        return job.id


@task
def stop_with_savepoint(name: str) -> str:
    """Stop the streaming job of this name, and return the id of its savepoint."""
    with Client() as client:
        return client.jobs[name].stop()


@task(retries=3, retry_delay=timedelta(seconds=10))
def start_from_savepoint(file: str, savepoint: str) -> str:
    """Start the new graph from the savepoint, and return the job's id once it runs."""
    graph = yaml.safe_load((GRAPHS / file).read_text())
    with Client() as client:
        job = client.submit(
            graph,
            directory=GRAPHS,
            savepoint=savepoint,
            idempotency_key=f"{graph['name']}:{run_id()}",
        )
        job.wait(state="running", timeout=600)
        return job.id


@dag(schedule="@daily", start_date=datetime(2026, 1, 1), catchup=False)  # noqa: DTZ001
def headgate_nightly() -> None:
    report = run_batch_job("bounded.yaml")
    savepoint = stop_with_savepoint("quickstart")
    report >> savepoint
    start_from_savepoint("quickstart.yaml", savepoint)


headgate_nightly()
