"""The commands about access: tokens, whoami and audit."""

from datetime import timedelta
from typing import Annotated

import typer
from rich.table import Table

from jobmanager.client import answers, display
from jobmanager.client.cli import DEFAULT_URL, AsJson, Url, app, print_json
from jobmanager.client.client import HeadgateClient
from jobmanager.client.client_typer import ClientTyper
from jobmanager.client.errors import HeadgateError
from jobmanager.core import durations
from jobmanager.core.access.roles import Role

tokens = ClientTyper(
    help="Create, list and revoke the tokens of clients. Needs an admin token.",
    no_args_is_help=True,
)
app.add_typer(tokens, name="tokens")
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Who uses the token: a person, a program.")
]


@tokens.command("create")
def create(
    name: Name,
    role: Annotated[Role, typer.Option(help="What the token allows.")],
    expires: Annotated[
        str | None, typer.Option(metavar="AGE", help="When it expires, such as 90d. [never]")
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print the token, and nothing else.")
    ] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Create a token and print it. It cannot be shown again: the server stores only its hash.

    \b
    Example:
      headgate tokens create ci --role operator --expires 90d
      export HEADGATE_TOKEN=$(headgate tokens create me --role developer -q)
    """
    with HeadgateClient(url) as client:
        made = client.create_token(name, role, expires=_age(expires))
    if as_json:
        print_json(made)
    elif quiet:
        typer.echo(made["token"])
    else:
        until = f"expires at {made['expires_at']}" if made["expires_at"] else "never expires"
        typer.echo(f"the token {name} has the role {role}, {until}, and cannot be shown again:")
        typer.echo(made["token"])


@tokens.command("list")
def list_tokens(url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """List all tokens, the newest first.

    \b
    Example:
      headgate tokens list
    """
    with HeadgateClient(url) as client:
        found = client.tokens()
    if as_json:
        print_json(found)
    elif found:
        display.console().print(_tokens(found))
    else:
        typer.echo("no tokens yet: headgate tokens create NAME --role ROLE")


@tokens.command("revoke")
def revoke(name: Name, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Revoke a token. Every server refuses it within a second.

    \b
    Example:
      headgate tokens revoke ci
    """
    with HeadgateClient(url) as client:
        revoked = client.revoke_token(name)
    if as_json:
        print_json(revoked)
    else:
        typer.echo(f"the token {name} is revoked")


@app.command()
def whoami(url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Show the name and role of the token in use.

    \b
    Example:
      headgate whoami
    """
    with HeadgateClient(url) as client:
        found = client.whoami()
    if as_json:
        print_json(found)
    else:
        typer.echo(f"{found['name']}, with the role {found['role']}")


@app.command()
def audit(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="The number of entries.")] = 50,
    before: Annotated[
        int | None, typer.Option(min=1, metavar="ID", help="Only entries older than this one.")
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """List the requests that changed something or were refused, the newest first.

    Needs an admin token.

    \b
    Example:
      headgate audit --limit 20
    """
    with HeadgateClient(url) as client:
        page = client.audit(limit=limit, before=before)
    if as_json:
        print_json(page)
        return
    display.console().print(_audit(page["items"]))
    if page["next"] is not None:
        typer.echo(f"older ones: headgate audit --before {page['next']}")


def _age(text: str | None) -> timedelta | None:
    if text is None:
        return None
    try:
        return durations.parse(text)
    except ValueError as error:
        raise HeadgateError(f"--expires: {error}") from error


def _tokens(found: list[answers.TokenResponse]) -> Table:
    table = _table("name", "role", "state", "created", "expires", "last used")
    for one in found:
        state = "usable" if one["is_usable"] else "revoked" if one["revoked_at"] else "expired"
        table.add_row(
            one["name"],
            one["role"],
            state,
            _shown(one["created_at"]),
            _shown(one["expires_at"]),
            _shown(one["last_used_at"]),
        )
    return table


def _audit(found: list[answers.AuditItem]) -> Table:
    table = _table("id", "at", "who", "role", "from", "what", "about", "answer")
    for one in found:
        table.add_row(
            str(one["id"]),
            _shown(one["at"]),
            one["actor"],
            one["role"],
            one["origin"] or "",
            f"{one['method']} {one['route']}",
            one["subject"] or "",
            str(one["status"] or "none yet"),
        )
    return table


def _table(*titles: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in titles:
        table.add_column(title)
    return table


def _shown(at: str | None) -> str:
    return at[:19].replace("T", " ") if at else ""
