"""The `headgate` command: the client's command line, and what needs a server's code.

The client may not import the server, so the two meet here. Imports that only
`serve` or `demo` need are made there: `headgate list` starts quickly.
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
        int | None, typer.Option(help="Port to listen on; 0 takes a free one. [default: 8081]")
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="What the server keeps. [default: .headgate]"),
    ] = None,
    database_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A Postgres. [default: one embedded in the data dir]"),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(metavar="URI", help="What Spark works in, file:///... [in the data dir]"),
    ] = None,
    checkpoints: Annotated[
        str | None,
        typer.Option(
            metavar="URI",
            help="Where checkpoints are kept, s3://bucket/... or file:///... [in the storage]",
        ),
    ] = None,
    spark_master: Annotated[
        str | None, typer.Option(metavar="URL", help="Where jobs run. [default: local[cores]]")
    ] = None,
    data_root: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="What relative paths in job graphs are relative to. [default: in the storage, "
            "where one is named, or in the data dir]",
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
            help="The name of this machine, where several have the same host name. [host name]",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A further name by which clients may call this server; repeatable. IP addresses, "
            "localhost and the advertised name are always fine.",
        ),
    ] = None,
    fence_after: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="How long a runner goes on without a server if it has a sink that cannot be "
            "fenced (python, scripts); others go on for ever. [default: 60s]",
        ),
    ] = None,
    stop_jobs: Annotated[
        bool | None,
        typer.Option("--stop-jobs", help="Cancel the jobs when the server ends; else they go on."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a server, until Ctrl-C or SIGTERM.

    Each option can be set as an environment variable, such as HEADGATE_PORT or
    HEADGATE_DATABASE_URL (--allow-host as HEADGATE_ALLOW_HOSTS, separated by commas). The
    option counts where both are given.

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
        fence_after=fence_after,
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
        typer.Option(metavar="PATH", help="Each run has a directory in it. [.headgate/demo]"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Start a server, run the quickstart job on it, show what happens, and tidy up.

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
            f"{_option(one['loc'])}{one['msg'].removeprefix('Value error, ')}"
            for one in error.errors()
        )
        raise HeadgateError(f"the settings do not fit: {faults}") from error
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
    """Empty: the fault is about several options, and names them."""
    if not location:
        return ""
    return "--" + "-".join(str(part) for part in location).replace("_", "-") + ": "
