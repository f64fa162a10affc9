"""The commands that change how a running job runs: rescale, plan, upgrade."""

from typing import Annotated, cast

import typer

from jobmanager.client import (
    answers,
    display,
    following,
    graph_file,
    job_reference,
    local_artifacts,
)
from jobmanager.client.cli import DEFAULT_URL, AsJson, Job, Url, Wait, app, print_json
from jobmanager.client.client import HeadgateClient

Graph = Annotated[str, typer.Argument(metavar="FILE", help="YAML or JSON; - reads stdin.")]
Parallelism = Annotated[
    int | None, typer.Option(min=1, help="Subtasks of each keyed vertex, instead of the graph's.")
]
AllowLoss = Annotated[
    bool,
    typer.Option(
        "--allow-non-restored-state", help="Drop saved state that the graph has no vertex for."
    ),
]


@app.command()
def rescale(
    job: Job,
    parallelism: Annotated[
        int,
        typer.Argument(
            metavar="N", min=1, help="The new parallelism, a divisor of max_parallelism."
        ),
    ],
    wait: Wait = 600.0,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Change the parallelism of a running job, and keep all its state.

    The job stops with a savepoint between two batches, its state is repartitioned by key groups,
    and the job continues. If anything fails, it continues with the old parallelism.

    \b
    Example:
      headgate rescale 3f2a 4
    """
    with HeadgateClient(url) as client:
        job_id = job_reference.find(client, job)
        operation = client.rescale(job_id, parallelism)
        found = following.within(client, operation, wait, tell=not as_json)
    if as_json:
        print_json(found)
    elif found["status"] == "completed":
        typer.echo(_rescaled(_change(found)))
    else:
        typer.echo(_under_way(found))


@app.command()
def plan(
    job: Job,
    file: Graph,
    parallelism: Parallelism = None,
    allow_non_restored_state: AllowLoss = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Show what an upgrade of a running job to another graph would do, and stop nothing.

    The plan has the changes, the vertices that keep, lose or gain state, Spark's answer to the new
    graph with a copy of the newest checkpoint, and a verdict. The exit code is 0 if the upgrade
    would be started.

    \b
    Example:
      headgate plan 3f2a new.yaml
    """
    graph = graph_file.read(file)
    with HeadgateClient(url) as client:
        job_id = job_reference.find(client, job)
        graph = local_artifacts.uploaded(client, graph, graph_file.directory_of(file))
        found = client.plan_upgrade(
            job_id,
            graph,
            parallelism=parallelism,
            allow_non_restored_state=allow_non_restored_state,
        )
    if as_json:
        print_json(found)
    else:
        for table in display.upgrade_plan(found):
            display.console().print(table)
        runs_on = "" if found["needs_restart"] else " (only meta changes: the job runs on)"
        typer.echo(f"verdict: {found['verdict'].replace('_', ' ')}{runs_on}")
        for reason in found["reasons"]:
            typer.echo(f"  {reason}")
    if found["verdict"] != "compatible":
        raise typer.Exit(1)


@app.command()
def upgrade(
    job: Job,
    file: Graph,
    parallelism: Parallelism = None,
    allow_non_restored_state: AllowLoss = False,
    wait: Wait = 600.0,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Upgrade a running job to another graph, by way of a savepoint.

    If the new graph does not reach its first checkpoint, the job goes back to the old graph. The
    savepoint is kept, so that you can go back later, too. If only `meta` differs, nothing stops.

    \b
    Example:
      headgate plan 3f2a new.yaml
      headgate upgrade 3f2a new.yaml
    """
    graph = graph_file.read(file)
    with HeadgateClient(url) as client:
        job_id = job_reference.find(client, job)
        graph = local_artifacts.uploaded(client, graph, graph_file.directory_of(file))
        operation = client.upgrade(
            job_id,
            graph,
            parallelism=parallelism,
            allow_non_restored_state=allow_non_restored_state,
        )
        found = following.within(client, operation, wait, tell=not as_json)
    if as_json:
        print_json(found)
    elif found["status"] == "completed":
        change = _change(found)
        revision, savepoint = change["graph_revision"]["to"], change["savepoint"]
        said = (
            "only meta changed, and the job ran on"
            if savepoint is None
            else f"to go back, use savepoint {savepoint}"
        )
        typer.echo(f"job {job_id} runs revision {revision}; {said}")
    else:
        typer.echo(_under_way(found))


def _change(operation: answers.OperationResponse) -> answers.JobChanged:
    """Return the result of a completed rescale or upgrade."""
    return cast(answers.JobChanged, operation["result"])


def _rescaled(result: answers.JobChanged) -> str:
    before, after = result["parallelism"]["from"], result["parallelism"]["to"]
    return f"rescaled from {before} to {after}: {result['key_groups_moved']} key groups moved"


def _under_way(operation: answers.OperationResponse) -> str:
    phase = operation["phases"][-1]["name"]
    return f"{operation['kind']} {operation['id']} is under way: {phase}"
