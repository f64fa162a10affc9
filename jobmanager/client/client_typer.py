"""The client's commands: adds the options that many commands have in common.

--url, --context, --ca    to a command with a parameter `url`: which server is meant
-o, --output              to a command with a parameter `as_json`: the form of the output
--watch, --interval       to a command that is added with `watch=True`
"""

import contextlib
import inspect
import io
import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from jobmanager.client import contexts, credentials
from jobmanager.client.completion import context_names
from jobmanager.client.errors import HeadgateError, ServerNotReady, ServerUnreachable
from jobmanager.client.output import OutputFormat, printing

Command = TypeVar("Command", bound=Callable[..., Any])
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"
GivenContext = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="NAME",
        autocompletion=context_names,
        help="A server by its name in ~/.config/headgate/config.toml. [env var: HEADGATE_CONTEXT]",
    ),
]
Ca = Annotated[
    Path | None,
    typer.Option(
        "--ca",
        metavar="FILE",
        help="PEM file of certificates that an https:// server is verified with. "
        "[env var: HEADGATE_CA]",
    ),
]
Output = Annotated[
    OutputFormat | None,
    typer.Option(
        "--output",
        "-o",
        help="For people: table, or wide with more columns. For programs: json, yaml, or name, "
        "which prints ids only.",
    ),
]
Watch = Annotated[
    bool, typer.Option("--watch", "-w", help="Show it again and again, until Ctrl-C.")
]
Interval = Annotated[
    float, typer.Option(min=0.1, metavar="SECONDS", help="How often --watch looks.")
]


class ClientTyper(typer.Typer):
    def command(
        self,
        name: str | None = None,
        *,
        watch: bool = False,
        server_option: str = "--url",
        **settings: Any,
    ) -> Callable[[Command], Command]:
        """`server_option`: the option for the URL of the server, if --url means something else."""
        register = super().command(name, **settings)

        def add(function: Command) -> Command:
            made = _with_watch(function) if watch else function
            made = _with_output(made) if _has(function, "as_json") else made
            register(_with_server(made, server_option) if _has(function, "url") else made)
            return function

        return add


def _given_url(option: str) -> Any:
    told = typer.Option(
        option,
        metavar="URL",
        help="URL of the server. [env var: HEADGATE_URL; default: that of the current context, or "
        f"{contexts.DEFAULT_URL}]",
    )
    return Annotated[str | None, told]


def _has(function: Callable[..., Any], name: str) -> bool:
    return name in inspect.signature(function).parameters


def _with_server(function: Command, option: str) -> Command:
    """Choose the server by options, environment and configuration."""

    @wraps(function)
    def called(
        *given: Any,
        url: str | None = None,
        context: str | None = None,
        ca: Path | None = None,
        **named: Any,
    ) -> Any:
        chosen = contexts.choose(url, context)
        with credentials.using(chosen.environment), credentials.trusting(ca):
            return function(*given, url=chosen.url, **named)

    given_url = _given_url(option)
    return _with_options(
        called, function, url=(given_url, None), context=(GivenContext, None), ca=(Ca, None)
    )


def _with_output(function: Command) -> Command:
    """Choose the form of the output."""

    @wraps(function)
    def called(
        *given: Any, as_json: bool = False, output: OutputFormat | None = None, **named: Any
    ) -> Any:
        if as_json and output not in (None, OutputFormat.JSON):
            raise HeadgateError(f"--json and -o {output} ask for different output: give one")
        chosen = output or (OutputFormat.JSON if as_json else OutputFormat.TABLE)
        with printing(chosen):
            return function(*given, as_json=chosen.is_for_programs, **named)

    return _with_options(called, function, output=(Output, None))


def _with_watch(function: Command) -> Command:
    """Run the command again and again. On a terminal the screen is replaced; elsewhere the output
    is printed whenever it has changed.
    """

    @wraps(function)
    def called(*given: Any, watch: bool = False, interval: float = 2.0, **named: Any) -> Any:
        if not watch:
            return function(*given, **named)
        before = None
        while True:
            with contextlib.redirect_stdout(_Screen()) as screen:
                _look(function, given, named)
            shown = screen.getvalue()
            if shown != before:
                sys.stdout.write(f"{_CLEAR if sys.stdout.isatty() else ''}{shown}")
                sys.stdout.flush()
            before = shown
            time.sleep(interval)

    return _with_options(called, function, watch=(Watch, False), interval=(Interval, 2.0))


class _Screen(io.StringIO):
    """Collects what a command prints, and is a terminal if the standard output is one."""

    def __init__(self) -> None:
        super().__init__()
        self._is_terminal = sys.stdout.isatty()

    def isatty(self) -> bool:
        return self._is_terminal


def _look(function: Callable[..., Any], given: Any, named: Any) -> None:
    """Run the command once. A server that is away for a while ends no watch."""
    try:
        function(*given, **named)
    except (ServerUnreachable, ServerNotReady) as error:
        typer.echo(f"headgate: {error}", err=True)


def _with_options(called: Any, function: Command, **options: tuple[Any, Any]) -> Command:
    """Give `called` the parameters of the function and these options, each with its default, in
    place of options of the same name.
    """
    signature = inspect.signature(function, eval_str=True)
    parameters = {name: one for name, one in signature.parameters.items() if name not in options}
    annotations = {**function.__annotations__}
    for name, (annotation, default) in options.items():
        annotations[name] = annotation
        parameters[name] = inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
        )
    called.__signature__ = signature.replace(parameters=list(parameters.values()))
    called.__annotations__ = annotations
    made: Command = called
    return made
