"""The client's commands: adds the option `--ca` to every command that has `--url`."""

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from jobmanager.client import credentials

Command = TypeVar("Command", bound=Callable[..., Any])
Ca = Annotated[
    Path | None,
    typer.Option(
        "--ca",
        envvar="HEADGATE_CA",
        metavar="FILE",
        help="PEM file of certificates that an https:// server is verified with.",
    ),
]


class ClientTyper(typer.Typer):
    def command(self, name: str | None = None, **settings: Any) -> Callable[[Command], Command]:
        register = super().command(name, **settings)

        def add(function: Command) -> Command:
            asks_a_server = "url" in inspect.signature(function).parameters
            register(_with_ca(function) if asks_a_server else function)
            return function

        return add


def _with_ca(function: Command) -> Command:
    signature = inspect.signature(function, eval_str=True)
    option = inspect.Parameter("ca", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Ca)

    @wraps(function)
    def called(*given: Any, ca: Path | None = None, **named: Any) -> Any:
        with credentials.trusting(ca):
            return function(*given, **named)

    called.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), option]
    )
    called.__annotations__ = {**function.__annotations__, "ca": Ca}
    return called  # type: ignore[return-value]
