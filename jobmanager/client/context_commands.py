"""The commands about contexts: servers by name, in the user's own configuration."""

import json
import re
from typing import Annotated

import typer
from rich.table import Table

from jobmanager.client import contexts, display
from jobmanager.client.cli import AsJson, app, print_json
from jobmanager.client.client_typer import ClientTyper
from jobmanager.client.completion import context_names
from jobmanager.client.errors import HeadgateError

group = ClientTyper(
    help="Servers by name, in ~/.config/headgate/config.toml.", no_args_is_help=True
)
app.add_typer(group, name="contexts")
Name = Annotated[
    str, typer.Argument(metavar="NAME", autocompletion=context_names, help="The context's name.")
]
_NAME = re.compile(r"[A-Za-z0-9_-]+")


@group.command("list")
def list_contexts(as_json: AsJson = False) -> None:
    """List the contexts; the current one is marked.

    \b
    Example:
      headgate contexts list
    """
    found = contexts.read(contexts.path_of())
    if as_json:
        print_json(
            [
                {
                    "name": name,
                    "url": one.url,
                    "token_command": one.token_command,
                    "ca": one.ca,
                    "is_current": name == found.current,
                }
                for name, one in found.contexts.items()
            ]
        )
        return
    if not found.contexts:
        typer.echo("no contexts yet: headgate contexts set NAME --server URL", err=True)
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("", "NAME", "URL", "TOKEN COMMAND", "CA"):
        table.add_column(title, overflow="fold")
    for name, one in found.contexts.items():
        mark = "*" if name == found.current else ""
        table.add_row(mark, name, one.url, one.token_command or "-", one.ca or "-")
    display.console().print(table)


@group.command("set")
def set_context(
    name: Name,
    server: Annotated[str, typer.Option(metavar="URL", help="URL of the server.")],
    token_command: Annotated[
        str | None, typer.Option(metavar="COMMAND", help="A shell command that prints the token.")
    ] = None,
    ca: Annotated[
        str | None, typer.Option(metavar="FILE", help="PEM file of trusted certificates.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Add a context, or replace it. The first one becomes the current one.

    \b
    Example:
      headgate contexts set production --server https://headgate.example:8081 \\
        --token-command "pass show headgate"
    """
    if not _NAME.fullmatch(name):
        raise HeadgateError(f"{name!r} is no name of a context: use letters, digits, - and _")
    path = contexts.path_of()
    known = contexts.read(path)
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    made = contexts.ServerContext(server, token_command, ca)
    text = with_context(text, name, made)
    if known.current is None:
        text = with_current(text, name)
    _write(text)
    if as_json:
        print_json({"name": name, "url": server, "token_command": token_command, "ca": ca})
    else:
        typer.echo(f"context {name} is {server}")


@group.command("use")
def use(name: Name, as_json: AsJson = False) -> None:
    """Make a context the current one, which commands without --url and --context use.

    \b
    Example:
      headgate contexts use production
    """
    path = contexts.path_of()
    if name not in contexts.read(path).contexts:
        raise HeadgateError(f"there is no context {name!r}: headgate contexts list")
    _write(with_current(path.read_text(encoding="utf-8"), name))
    if as_json:
        print_json({"name": name})
    else:
        typer.echo(f"the current context is {name}")


@group.command("delete")
def delete(name: Name, as_json: AsJson = False) -> None:
    """Delete a context.

    \b
    Example:
      headgate contexts delete staging
    """
    path = contexts.path_of()
    known = contexts.read(path)
    if name not in known.contexts:
        raise HeadgateError(f"there is no context {name!r}: headgate contexts list")
    text = with_context(path.read_text(encoding="utf-8"), name, None)
    _write(with_current(text, None) if known.current == name else text)
    if as_json:
        print_json({"name": name})
    else:
        typer.echo(f"context {name} is deleted")


def with_context(text: str, name: str, made: contexts.ServerContext | None) -> str:
    """Return the file with this table in place of the one of the same name; None: without it. All
    other lines, and comments, stay as they are.
    """
    header = re.compile(rf'\s*\[contexts\.(?:"{re.escape(name)}"|{re.escape(name)})\]')
    kept: list[str] = []
    is_inside = False
    for line in text.splitlines():
        if line.lstrip().startswith("["):
            is_inside = bool(header.match(line))
        if not is_inside:
            kept.append(line)
    if made is not None:
        fields = {"url": made.url, "token_command": made.token_command, "ca": made.ca}
        lines = [f"{key} = {_quoted(value)}" for key, value in fields.items() if value]
        kept = [*"\n".join(kept).rstrip().splitlines(), "", f"[contexts.{name}]", *lines]
    return "\n".join(kept).strip() + "\n"


def with_current(text: str, name: str | None) -> str:
    """Return the file with this context as the current one."""
    lines = text.splitlines()
    tables = next((at for at, one in enumerate(lines) if one.lstrip().startswith("[")), len(lines))
    top = [one for one in lines[:tables] if not re.match(r"\s*current\s*=", one)]
    said = [] if name is None else [f"current = {_quoted(name)}"]
    return "\n".join([*said, *top, *lines[tables:]]).strip() + "\n"


def _quoted(text: str) -> str:
    """Return a basic string of TOML, which JSON's strings are."""
    return json.dumps(text, ensure_ascii=False)


def _write(text: str) -> None:
    path = contexts.path_of()
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".new")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
