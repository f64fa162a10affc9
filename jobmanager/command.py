"""The `headgate` command: the client's command line, and the commands that need server code.

The client may not import the server, so this module imports both. Imports that only `serve` or
`demo` need are inside of these functions, so that `headgate list` starts quickly.
"""

import json
import sys
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import jobmanager.client.adopt_command  # adds its command to the app, as do
import jobmanager.client.apply_command
import jobmanager.client.artifact_commands
import jobmanager.client.change_commands
import jobmanager.client.context_commands
import jobmanager.client.gc_command
import jobmanager.client.open_command
import jobmanager.client.pause_commands
import jobmanager.client.rows_command
import jobmanager.client.savepoint_commands
import jobmanager.client.script_command
import jobmanager.client.sql_command
import jobmanager.client.state_commands
import jobmanager.client.support_commands
import jobmanager.client.token_commands
import jobmanager.client.wait_command
import jobmanager.client.webhook_commands
import jobmanager.connector_commands  # noqa: F401
from jobmanager.client.cli import AsJson, app, run
from jobmanager.client.errors import HeadgateError
from jobmanager.client.grouped_commands import add_groups

if TYPE_CHECKING:
    from jobmanager.server import ServerReady

add_groups()


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
            metavar="URL",
            help="A Postgres database, without its password: the list of processes would show it. "
            "[default: embedded, in the data dir]",
        ),
    ] = None,
    database_url_file: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="A file with the database URL and its password."),
    ] = None,
    database_password_file: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="A file with the password for --database-url."),
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
    readers: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=16,
            metavar="N",
            help="Processes that answer reads on the same port, so that many jobs and many "
            "readers do not slow each other down. [default: 0]",
        ),
    ] = None,
    warm_runners: Annotated[
        int | None,
        typer.Option(
            min=0, help="Processes with a primed Spark session, ready for jobs. [default: 1]"
        ),
    ] = None,
    runner_reuse: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Jobs that a runner's process serves one after the other; 0: one job for each "
            "process. Jobs with users' code never leave their process to others. [default: 20]",
        ),
    ] = None,
    shared_jobs: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Jobs that a shared process runs at the same time, of those that ask for that "
            "(execution.runner: shared); 0: every job has a process of its own. [default: 40]",
        ),
    ] = None,
    shared_memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Heap of the JVM of a shared process, such as 1500m or 4g. [default: 2g]",
        ),
    ] = None,
    connectors: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="Connector packages whose jars warm runners have, such as kafka,jdbc; a job that "
            "needs others gets a runner of its own.",
        ),
    ] = None,
    secrets_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Directory with a file for each secret that job graphs refer to as "
            "${secret:name}. HEADGATE_SECRET_NAME in the environment is another way.",
        ),
    ] = None,
    secrets_command: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            help="A command that prints the secret whose name it is given, as {name} or last.",
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
    advertise: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="URL under which runners and other servers reach this server. [host and port]",
        ),
    ] = None,
    require_tokens: Annotated[
        bool | None,
        typer.Option("--require-tokens", help="Accept only requests with a token."),
    ] = None,
    insecure: Annotated[
        bool | None,
        typer.Option(
            "--insecure",
            help="Need no tokens on any address: whoever reaches the server is admin.",
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Serve HTTPS with this certificate (PEM).")
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The key of the certificate (PEM).")
    ] = None,
    ca: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="PEM file of certificates that runners and other servers trust. "
            "[default: the server's own certificate]",
        ),
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ADDRESS",
            help="An address or network whose X-Forwarded-For is believed; repeatable.",
        ),
    ] = None,
    allow_path: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROOT_OR_URI",
            help="A directory or URI below which job graphs and savepoints may name places; "
            "repeatable. The data root, and for savepoints the storage, always count. "
            "[default: any path on loopback, none more on other addresses]",
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
        typer.Option(
            "--stop-jobs", help="Cancel the jobs when the server ends; by default they go on."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a server, until Ctrl-C or SIGTERM.

    Each option can be set as an environment variable, such as HEADGATE_PORT or
    HEADGATE_DATABASE_URL (--allow-host as HEADGATE_ALLOW_HOSTS, --allow-path as
    HEADGATE_ALLOW_PATHS and --trusted-proxy as HEADGATE_TRUSTED_PROXIES, separated by commas). An
    option on the command line wins over its variable. The database password comes from a file or
    the environment, never from an option.

    On a loopback address no tokens are needed. On any other address every request needs a token;
    the first admin token is printed once, when the server starts.

    What is kept, and for how long, is set by variables only: HEADGATE_KEEP_HISTORY,
    HEADGATE_KEEP_ATTEMPTS, HEADGATE_KEEP_CHECKPOINT_ROWS, HEADGATE_KEEP_ENDED_JOBS,
    HEADGATE_MOST_ENDED_JOBS, HEADGATE_KEEP_ENDED_CHECKPOINTS, HEADGATE_RUNNER_LOG_BYTES and
    HEADGATE_RUNNER_LOG_FILES. So are the limits on connections: HEADGATE_MOST_CONNECTIONS,
    HEADGATE_HEAD_TIMEOUT, HEADGATE_MOST_HEAD_BYTES, HEADGATE_BODY_TIMEOUT, HEADGATE_BODY_IDLE,
    HEADGATE_KEEP_ALIVE and HEADGATE_UNREAD_TIMEOUT. docs/operations.md explains them.

    \b
    Example:
      headgate serve --port 8081 --data-dir /var/lib/headgate
    """
    _serve(
        as_json,
        host=host,
        port=port,
        data_dir=data_dir,
        database_url=_without_password(database_url),
        database_url_file=database_url_file,
        database_password_file=database_password_file,
        storage=storage,
        checkpoints=checkpoints,
        spark_master=spark_master,
        data_root=data_root,
        readers=readers,
        warm_runners=warm_runners,
        runner_reuse=runner_reuse,
        shared_jobs=shared_jobs,
        shared_memory=shared_memory,
        connectors=connectors or None,
        secrets_dir=secrets_dir,
        secrets_command=secrets_command,
        node=node,
        allow_hosts=allow_host or None,
        fence_after=fence_after,
        allow_paths=allow_path or None,
        advertise=advertise,
        require_tokens=require_tokens,
        insecure=insecure,
        tls_cert=tls_cert,
        tls_key=tls_key,
        ca=ca,
        trusted_proxies=trusted_proxy or None,
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

    from jobmanager.settings import Settings

    try:
        settings = Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        faults = "; ".join(
            f"{_option(one['loc'])}{one['msg'].removeprefix('Value error, ')}"
            for one in error.errors()
        )
        raise HeadgateError(f"the settings are not valid: {faults}") from error
    from jobmanager.early_start import CannotStart, EarlyStart

    try:
        with closing(EarlyStart(settings)) as early:
            from jobmanager import server

            server.serve(settings, early, lambda ready: typer.echo(ready_text(ready, as_json)))
    except CannotStart as error:
        raise HeadgateError(" ".join(str(error).split())) from error


def _without_password(url: str | None) -> str | None:
    """Refuse a URL with a password: everybody on the machine can read a command line."""
    from jobmanager.store.database_url import parse_url

    if url is None:
        return None
    try:
        has_password = bool(parse_url(url).password)
    except ValueError as error:
        raise HeadgateError(f"--database-url: {error}") from None
    if has_password:
        raise HeadgateError(
            "--database-url holds a password, and everybody on this machine can read it in the "
            "list of processes: put the URL into HEADGATE_DATABASE_URL or into a file "
            "(--database-url-file), or the password into a file (--database-password-file)"
        )
    return url


def ready_text(ready: "ServerReady", as_json: bool) -> str:
    """Return the text for standard output. The first admin token appears there and nowhere else:
    logs go to standard error.
    """
    if as_json:
        return json.dumps(asdict(ready))
    follows = f"follows {ready.leader}" if ready.leader else "waits for the lease"
    does = "is ready" if ready.leader == ready.url else f"{follows} and is ready"
    lines = [f"Headgate {does} at {ready.url}", ready.access]
    if ready.first_admin_token:
        lines += [
            "The first admin token, for HEADGATE_TOKEN of a client. It is not shown again:",
            ready.first_admin_token,
        ]
    return "\n".join(lines)


def _option(location: tuple[int | str, ...]) -> str:
    """What a fault is of: an option, or several, which the message names."""
    name = "-".join(str(part) for part in location).replace("_", "-")
    return f"--{name}: " if name else ""
