"""The commands about who may do what: tokens, whoami, audit."""

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
    help="Make, list and revoke the tokens by which clients are let in. For admins.",
    no_args_is_help=True,
)
app.add_typer(tokens, name="tokens")
Name = Annotated[str, typer.Argument(metavar="NAME", help="Of whoever uses the token.")]


@tokens.command("create")
def create(
    name: Name,
    role: Annotated[Role, typer.Option(help="What its user may do.")],
    expires: Annotated[
        str | None, typer.Option(metavar="AGE", help="After which it ends: 90d. [never]")
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print the token, and nothing else.")
    ] = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Make a token. It is told once: the server keeps only its hash.

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
        until = made["expires_at"] or "it is revoked"
        typer.echo(f"the token {name}, for a {role}, until {until}; it is not shown again:")
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
    """Revoke a token: it opens nothing any more, on any server, within a second.

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
    """Say who the server takes us for, and what we may do.

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
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many.")] = 50,
    before: Annotated[
        int | None, typer.Option(min=1, metavar="ID", help="Older ones than this one.")
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """List what was changed or refused, by whom and from where, the newest first. For admins.

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
