"""The commands about webhooks."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from jobmanager.client import answers, display, exit_codes
from jobmanager.client.cli import DEFAULT_URL, AsJson, Url, app, print_json
from jobmanager.client.client import HeadgateClient
from jobmanager.client.client_typer import ClientTyper
from jobmanager.client.errors import HeadgateError
from jobmanager.core.signals.webhook import RULES

webhooks = ClientTyper(
    help="Tell other programs what happens to jobs, by signed HTTP requests.",
    no_args_is_help=True,
)
app.add_typer(webhooks, name="webhooks")
Name = Annotated[str, typer.Argument(metavar="NAME", help="The webhook's name.")]


@webhooks.command("create", server_option="--server")
def create(
    name: Name,
    receiver: Annotated[
        str,
        typer.Option(
            "--url",
            metavar="URL",
            help="Where requests are sent. The path may contain ${secret:name}.",
        ),
    ],
    on: Annotated[
        str, typer.Option(metavar="EVENTS", help=f"Separated by commas, of: {', '.join(RULES)}.")
    ],
    job: Annotated[
        str | None,
        typer.Option(metavar="PATTERN", help="Names of jobs, such as 'orders-*', or an id. [all]"),
    ] = None,
    secret_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file with the key of the signature. [a new key]"),
    ] = None,
    secret: Annotated[
        str | None,
        typer.Option(metavar="${secret:NAME}", help="A secret of the server, by reference."),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print the new key, and nothing else.")
    ] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Create a webhook: requests about events are sent to its URL, signed with a key that only
    the server and the receiver have. Needs an admin token. See docs/signals.md.

    Here --url is the receiver's URL, and --server that of the server.

    \b
    Example:
      headgate webhooks create ops --url https://hooks.example.com/headgate --on restart,stalled
      headgate webhooks create ci --url https://ci.example.com/h --on state_changed \\
        --job 'orders-*' --secret-file key.txt
      headgate webhooks create chat --url 'https://chat.example.com/${secret:chat}' --on restart
    """
    with HeadgateClient(url) as client:
        made = client.create_webhook(
            name, receiver, _events(on), job=job, secret=_secret(secret, secret_file)
        )
    if as_json:
        print_json(made)
    elif quiet:
        typer.echo(made["made_secret"] or "")
    else:
        typer.echo(f"the webhook {name} is told of {', '.join(made['on'])} at {made['url']}")
        if made["made_secret"] is not None:
            typer.echo("the key of its signatures, for the receiver, cannot be shown again:")
            typer.echo(made["made_secret"])
        typer.echo(f"try it: headgate webhooks test {name}")


@webhooks.command("list")
def list_webhooks(url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """List all webhooks, without their secrets. Needs the role operator.

    \b
    Example:
      headgate webhooks list
    """
    with HeadgateClient(url) as client:
        found = client.webhooks()
    if as_json:
        print_json(found)
    elif found:
        display.console().print(_webhooks(found))
    else:
        typer.echo("no webhooks yet: headgate webhooks create NAME --url URL --on EVENTS")


@webhooks.command("test")
def send_sample(name: Name, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Send a sample, and show what the receiver answered. The exit code is 1 if the receiver did
    not take it. Needs the role operator.

    \b
    Example:
      headgate webhooks test ops
    """
    with HeadgateClient(url) as client:
        found = client.test_webhook(name)
    if as_json:
        print_json(found)
    else:
        said = f"answered {found['status']}" if found["status"] is not None else found["error"]
        typer.echo(f"{'delivered' if found['is_delivered'] else 'not delivered'}: {said}", nl=False)
        typer.echo(f", in {found['took_ms']} ms")
        if found["answer"]:
            typer.echo(found["answer"])
    if not found["is_delivered"]:
        raise typer.Exit(exit_codes.FAILED)


@webhooks.command("deliveries")
def deliveries(
    name: Name,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The number of deliveries.")] = 20,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """List what was sent to a webhook, and what waits, the newest first. Needs the role operator.

    \b
    Example:
      headgate webhooks deliveries ops --limit 50
    """
    with HeadgateClient(url) as client:
        found = client.webhook_deliveries(name, limit=limit)
    if as_json:
        print_json(found)
    else:
        display.console().print(_deliveries(found))


@webhooks.command("delete")
def delete(name: Name, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Delete a webhook. What was not sent yet is not sent any more. Needs an admin token.

    \b
    Example:
      headgate webhooks delete ops
    """
    with HeadgateClient(url) as client:
        gone = client.delete_webhook(name)
    if as_json:
        print_json(gone)
    else:
        typer.echo(f"the webhook {name} is deleted")


def _events(text: str) -> list[str]:
    events = [one.strip() for one in text.split(",") if one.strip()]
    unknown = [one for one in events if one not in set(RULES)]
    if unknown or not events:
        raise HeadgateError(
            f"--on: {', '.join(unknown) or 'nothing'} is no event; there are {', '.join(RULES)}"
        )
    return events


def _secret(reference: str | None, file: Path | None) -> str | None:
    if reference is not None and file is not None:
        raise HeadgateError("--secret and --secret-file: give one of them")
    if reference is not None and not reference.startswith("${secret:"):
        raise HeadgateError(
            "--secret takes a reference, such as '${secret:hooks}': other users of this machine "
            "can read command lines. Put a key into a file, and use --secret-file"
        )
    if file is None:
        return reference
    try:
        return file.expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise HeadgateError(f"--secret-file: {file} cannot be read: {error}") from error


def _webhooks(found: list[answers.WebhookResponse]) -> Table:
    table = _table("name", "url", "on", "jobs", "waiting", "given up", "last delivered")
    for one in found:
        table.add_row(
            one["name"],
            one["url"],
            ",".join(one["on"]),
            one["job"] or "all",
            str(one["pending"]),
            str(one["given_up"]),
            _shown(one["last_delivered_at"]),
        )
    return table


def _deliveries(found: list[answers.DeliveryItem]) -> Table:
    table = _table("at", "event", "job", "status", "tries", "answer", "next try")
    for one in found:
        table.add_row(
            _shown(one["created_at"]),
            one["event"],
            one["job_name"] or "",
            one["status"],
            str(one["tries"]),
            one["error"] or str(one["answer_status"] or ""),
            _shown(one["next_try_at"]),
        )
    return table


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in titles:
        table.add_column(title)
    return table


def _shown(at: str | None) -> str:
    return at[:19].replace("T", " ") if at else ""
