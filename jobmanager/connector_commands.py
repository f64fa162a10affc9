"""The commands about connector packages. They work without a server."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from jobmanager.client import display
from jobmanager.client.cli import AsJson, app, print_json
from jobmanager.client.client_typer import ClientTyper
from jobmanager.client.errors import HeadgateError
from jobmanager.core.connector_packages import (
    ConnectorPackage,
    Coordinates,
    UnusableCatalogue,
    parse_coordinates,
    parse_name,
)

if TYPE_CHECKING:
    from jobmanager.files.connector_shelf import ConnectorShelf
    from jobmanager.files.jar_sources import JarSource, OnBytes

connectors = ClientTyper(
    help="List and install what connectors need: jars and Python packages. Needs no server.",
    no_args_is_help=True,
)
app.add_typer(connectors, name="connectors")
_A_LOT = 64 * 1024 * 1024
"""Of a jar that has more bytes, the progress is told."""
DataDir = Annotated[
    Path,
    typer.Option(
        envvar="HEADGATE_DATA_DIR",
        metavar="PATH",
        help="The data directory of the server; jars are in connectors/ inside.",
    ),
]
SiteFile = Annotated[
    Path | None,
    typer.Option(
        "--catalogue",
        metavar="FILE",
        help="Your own coordinates and repository (TOML). [default: connectors.toml in the data "
        "directory]",
    ),
]


@connectors.command("list")
def list_connectors(
    data_dir: DataDir = Path(".headgate"),
    site_file: SiteFile = None,
    as_json: AsJson = False,
) -> None:
    """List the connector packages, and whether each is installed for the Spark in use.

    Installed jars are compared with their checksums.

    \b
    Example:
      headgate connectors list
    """
    shelf = _shelf(data_dir, site_file)
    names = dict.fromkeys([*shelf.packages, *shelf.installed()])
    found = [_described(shelf, name) for name in names]
    if as_json:
        print_json({"spark": shelf.spark_version, "packages": found})
        return
    table = Table(box=None, pad_edge=False)
    for title in ("NAME", "STATE", "FOR", "NEEDS"):
        table.add_column(title, overflow="fold")
    for one in found:
        table.add_row(one["name"], one["state"], one["purpose"], "\n".join(one["needs"]))
    display.console().print(table)
    for one in found:
        if one["pip"] and one["state"] != "installed":
            typer.echo(f"{one['name']}: {one['pip']}")


@connectors.command("install")
def install(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Packages, such as kafka avro jdbc s3.")
    ],
    data_dir: DataDir = Path(".headgate"),
    coordinates: Annotated[
        list[str] | None,
        typer.Option(
            metavar="GROUP:ARTIFACT:VERSION",
            help="The package's jars instead of those of the catalogue; repeatable.",
        ),
    ] = None,
    repository: Annotated[
        str | None,
        typer.Option(
            envvar="HEADGATE_MAVEN_REPOSITORY",
            metavar="URL",
            help="A Maven repository. [default: that of the catalogue file, or Maven Central]",
        ),
    ] = None,
    from_directory: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            exists=True,
            file_okay=False,
            help="Take the jars from a directory: nothing is fetched from a network.",
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Fetch packages that are already installed.")
    ] = False,
    site_file: SiteFile = None,
    as_json: AsJson = False,
) -> None:
    """Install connector packages for the Spark in use.

    Jars are kept in the data directory with their checksums; jobs never fetch any. A package that
    is already installed is left alone. Python packages are not installed: the command for pip is
    printed. A server sees new packages at once; warm runners get them when it is restarted.

    \b
    Example:
      headgate connectors install kafka avro jdbc
      headgate connectors install jdbc --from-directory /media/jars
      headgate connectors install mydb --coordinates com.example:mydb-jdbc:1.2
    """
    from jobmanager.files.connector_shelf import repository_of_spark
    from jobmanager.files.jar_sources import JarDirectory, JarRepository

    if coordinates and len(names) != 1:
        raise HeadgateError("--coordinates are those of one package: name one")
    shelf = _shelf(data_dir, site_file)
    if from_directory is not None:
        source: JarSource = JarDirectory(from_directory)
    else:
        try:
            source = JarRepository(repository or shelf.repository or repository_of_spark())
        except UnusableCatalogue as error:
            raise HeadgateError(str(error)) from error
    packages = [_package(shelf, name, coordinates or []) for name in dict.fromkeys(names)]
    say = (lambda text: None) if as_json else typer.echo
    for package in packages:
        _install(shelf, package, source, say, again=again)
    found = [_described(shelf, package.name) for package in packages]
    if as_json:
        print_json({"spark": shelf.spark_version, "packages": found})
    lacking = [one for one in found if one["state"] != "installed"]
    if lacking:
        raise HeadgateError(
            "; ".join(f"{one['name']} is {one['state']}: run {one['pip']}" for one in lacking)
        )


@connectors.command("remove")
def remove(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Packages.")],
    data_dir: DataDir = Path(".headgate"),
) -> None:
    """Delete the jars of connector packages. Jobs that need them fail when they start again.

    \b
    Example:
      headgate connectors remove s3
    """
    shelf = _shelf(data_dir, None)
    for name in dict.fromkeys(names):
        was_there = shelf.remove(_name(name))
        typer.echo(f"{name}: {'removed' if was_there else 'was not installed'}")


def _install(
    shelf: "ConnectorShelf",
    package: ConnectorPackage,
    source: "JarSource",
    say: Callable[[str], Any],
    *,
    again: bool,
) -> None:
    from jobmanager.files.jar_sources import JarNotFetched, JarNotPublished

    there = shelf.jars(package.name)
    if not package.jars:
        return
    wanted = [[str(jar) for jar in choice.jars] for choice in package.choices()]
    is_current = there is not None and [one.coordinates for one in there] in wanted
    if there is not None and is_current and not again and not any(one.damage() for one in there):
        say(f"{package.name}: already installed ({_sizes(there)})")
        return
    try:
        jars = shelf.install(
            package.name, package.choices(), source, say, lambda jar: _told(package.name, jar, say)
        )
    except JarNotPublished as error:
        raise HeadgateError(
            f"{package.name}: {error}. Name a repository that has the jar (--repository), a "
            "directory (--from-directory), or other coordinates (--coordinates)"
        ) from error
    except (JarNotFetched, OSError) as error:
        raise HeadgateError(f"{package.name}: {error}") from error
    say(f"{package.name}: installed for Spark {shelf.spark_version} ({_sizes(jars)})")


def _told(name: str, jar: Coordinates, say: Callable[[str], Any]) -> "OnBytes":
    """Tells that a jar is fetched, and of a large one how far."""
    say(f"{name}: {jar}")
    shown = 0

    def on_bytes(so_far: int, expected: int | None) -> None:
        nonlocal shown
        if so_far - shown >= _A_LOT:
            shown = so_far
            of = f" of {_megabytes(expected)}" if expected else ""
            say(f"{name}: {jar.file_name}: {_megabytes(so_far)}{of}")

    return on_bytes


def _described(shelf: "ConnectorShelf", name: str) -> dict[str, Any]:
    from jobmanager.files.connector_shelf import pip_command, python_state

    package = shelf.packages.get(name) or ConnectorPackage(name, "of this site")
    jars = shelf.jars(name)
    damage = [wrong for one in jars or () if (wrong := one.damage())]
    lacking = [one for one in package.python if python_state(one)]
    if damage:
        state = "damaged"
    elif (package.jars and jars is None) or lacking:
        state = "missing"
    else:
        state = "installed"
    needs = [one.coordinates for one in jars] if jars is not None else map(str, package.jars)
    return {
        "name": name,
        "state": state,
        "purpose": package.purpose,
        "needs": [*needs, *map(str, package.python)],
        "damage": damage,
        "pip": pip_command(lacking) if lacking else None,
    }


def _package(shelf: "ConnectorShelf", name: str, coordinates: Sequence[str]) -> ConnectorPackage:
    try:
        known = shelf.packages.get(parse_name(name))
        if coordinates:
            jars = tuple(map(parse_coordinates, coordinates))
            purpose = known.purpose if known else "of this site"
            return ConnectorPackage(name, purpose, jars, python=known.python if known else ())
    except UnusableCatalogue as error:
        raise HeadgateError(str(error)) from error
    if known is None:
        raise HeadgateError(
            f"there is no connector package {name!r}: known are {', '.join(shelf.packages)}; or "
            "name its jars with --coordinates"
        )
    return known


def _name(text: str) -> str:
    try:
        return parse_name(text)
    except UnusableCatalogue as error:
        raise HeadgateError(str(error)) from error


def _shelf(data_dir: Path, site_file: Path | None) -> "ConnectorShelf":
    from jobmanager.files.connector_shelf import environment_directory, open_shelf

    try:
        return open_shelf(data_dir.expanduser().resolve(), environment_directory(), site_file)
    except UnusableCatalogue as error:
        raise HeadgateError(str(error)) from error


def _sizes(jars: Sequence[Any]) -> str:
    number = f"{len(jars)} jar{'' if len(jars) == 1 else 's'}"
    return f"{number}, {_megabytes(sum(one.bytes for one in jars))}"


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:.1f} MB"
