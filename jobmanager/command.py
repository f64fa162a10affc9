"""The `headgate` command: the client's command line, and the commands that need server code.

The client may not import the server, so this module imports both. Imports that only `serve` or
`demo` need are inside of these functions, so that `headgate list` starts quickly.
"""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import jobmanager.client.adopt_command  # adds its command to the app, as do
import jobmanager.client.artifact_commands
import jobmanager.client.change_commands
import jobmanager.client.gc_command
import jobmanager.client.savepoint_commands
import jobmanager.client.script_command
import jobmanager.client.sql_command
import jobmanager.client.state_commands  # noqa: F401
from jobmanager.client.cli import AsJson, app, run
from jobmanager.client.errors import HeadgateError


def main() -> None:
    sys.exit(run(app, sys.argv[1:]))


@app.command()
def serve(
    host: Annotated[
        str | None, typer.Option(help="Address to listen on. [default: 127.0.0.1]")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on; 0: any free port. [default: 8081]")
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Directory of the server's own files. [default: .headgate]"
        ),
    ] = None,
    database_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="A Postgres database. [default: embedded, in the data dir]"
        ),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="URI", help="Working storage of jobs, file:///... [default: in the data dir]"
        ),
    ] = None,
    checkpoints: Annotated[
        str | None,
        typer.Option(
            metavar="URI",
            help="Storage of checkpoints, s3://bucket/... or file:///... [default: in the storage]",
        ),
    ] = None,
    spark_master: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Spark master of the jobs. [default: local[cores]]"),
    ] = None,
    data_root: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Directory that relative paths in job graphs start from. [default: in the "
            "storage if --storage is given, else in the data dir]",
        ),
    ] = None,
    warm_runners: Annotated[
        int | None,
        typer.Option(
            min=0, help="Processes with a primed Spark session, ready for jobs. [default: 1]"
        ),
    ] = None,
    node: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of this machine, if host names are not unique. [default: host name]",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A further host name under which clients may call this server; repeatable. IP "
            "addresses, localhost and the advertised name are always allowed.",
        ),
    ] = None,
    stop_jobs: Annotated[
        bool | None,
        typer.Option(
            "--stop-jobs", help="Cancel the jobs when the server ends; by default they go on."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a server, until Ctrl-C or SIGTERM.

    Each option can be set as an environment variable, such as HEADGATE_PORT or
    HEADGATE_DATABASE_URL (--allow-host as HEADGATE_ALLOW_HOSTS, separated by commas). An option on
    the command line wins over its variable.

    What is kept, and for how long, is set by variables only: HEADGATE_KEEP_HISTORY,
    HEADGATE_KEEP_ATTEMPTS, HEADGATE_KEEP_CHECKPOINT_ROWS, HEADGATE_KEEP_ENDED_JOBS,
    HEADGATE_MOST_ENDED_JOBS, HEADGATE_KEEP_ENDED_CHECKPOINTS, HEADGATE_RUNNER_LOG_BYTES and
    HEADGATE_RUNNER_LOG_FILES. docs/operations.md explains them.

    \b
    Example:
      headgate serve --port 8081 --data-dir /var/lib/headgate
    """
    _serve(
        as_json,
        host=host,
        port=port,
        data_dir=data_dir,
        database_url=database_url,
        storage=storage,
        checkpoints=checkpoints,
        spark_master=spark_master,
        data_root=data_root,
        warm_runners=warm_runners,
        node=node,
        allow_hosts=allow_host or None,
        stop_jobs=stop_jobs,
    )


@app.command()
def demo(
    seconds: Annotated[
        float | None,
        typer.Option(min=1, help="How long the job runs. [default: until Ctrl-C]"),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Directory for the runs. [default: .headgate/demo]"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start a server, run the quickstart job on it, show its progress, and clean up.

    \b
    Example:
      headgate demo --seconds 40
    """
    from jobmanager import demo as the_demo

    the_demo.run(seconds, data_dir or the_demo.DEFAULT_DIRECTORY, as_json)


def _serve(as_json: bool, **given: Any) -> None:
    from pydantic import ValidationError

    from jobmanager import server
    from jobmanager.settings import Settings

    try:
        settings = Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        faults = "; ".join(
            f"{_option(one['loc'])}: {one['msg'].removeprefix('Value error, ')}"
            for one in error.errors()
        )
        raise HeadgateError(f"the settings are not valid: {faults}") from error
    try:
        server.serve(settings, lambda ready: typer.echo(_ready(ready.url, ready.leader, as_json)))
    except server.CannotStart as error:
        raise HeadgateError(" ".join(str(error).split())) from error


def _ready(url: str, leader: str | None, as_json: bool) -> str:
    if as_json:
        return json.dumps({"url": url, "leader": leader})
    if leader == url:
        return f"Headgate is ready at {url}"
    follows = f"follows {leader}" if leader else "waits for the lease"
    return f"Headgate {follows} and is ready at {url}"


def _option(location: tuple[int | str, ...]) -> str:
    return "--" + "-".join(str(part) for part in location).replace("_", "-")
