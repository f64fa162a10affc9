"""The command that submits an existing PySpark program as a job."""

from pathlib import Path
from typing import Annotated

import typer

from jobmanager.client import local_artifacts
from jobmanager.client.cli import DEFAULT_URL, AsJson, Url, app, print_json
from jobmanager.client.client import HeadgateClient
from jobmanager.client.errors import HeadgateError


@app.command("submit-script", context_settings={"ignore_unknown_options": True})
def submit_script(
    script: Annotated[Path, typer.Argument(metavar="SCRIPT", help="The program, a .py file.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ARGUMENT]...", help="Arguments of the program, in its argv."),
    ] = None,
    py_files: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Code the program imports: .py, .zip, .whl, or a package."
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The job's name. [default: the script's]")
    ] = None,
    parallelism: Annotated[
        int | None, typer.Option(min=1, help="State partitions of the queries.")
    ] = None,
    from_savepoint: Annotated[
        str | None, typer.Option(metavar="ID|PATH", help="Start from a savepoint.")
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(metavar="SETTING=VALUE", help="A Spark setting of the job.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the job graph; submit nothing.")
    ] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Submit an existing PySpark Structured Streaming program.

    The server runs the program up to where it waits for its queries. Each query becomes a region
    of the job, with checkpoints, savepoints and restarts. Options of headgate come before SCRIPT.

    \b
    Example:
      headgate submit-script app.py
      headgate submit-script --py-files rules.py --parallelism 4 app.py --topic bids
      headgate submit-script --dry-run --json app.py > app.json
    """
    settings = dict(_setting(one) for one in conf or [])
    with HeadgateClient(url) as client:
        if not as_json and client.inspector()["state"] != "ready":
            typer.echo("starting a Spark session to read the script…", err=True)
        graph = client.describe_script(
            local_artifacts.upload(client, script),
            arguments=arguments or [],
            artifacts=[local_artifacts.upload(client, one) for one in py_files or []],
            name=name,
            parallelism=parallelism,
            spark=settings,
        )
        if dry_run:
            print_json(graph)
            return
        job_id = client.submit(graph, savepoint=from_savepoint)
    if as_json:
        print_json({"jobid": job_id, "graph": graph})
        return
    regions = [one["id"] for one in graph["vertices"] if one["op"] == "sink"]
    typer.echo(f"submitted {graph['name']} as job {job_id}: {', '.join(regions)}")


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise HeadgateError(f"--conf {text!r} is not of the form SETTING=VALUE")
    return name, value
