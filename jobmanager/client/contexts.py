"""Which server a client means: by an option, the environment, or a named context of the user.

    ~/.config/headgate/config.toml        ($XDG_CONFIG_HOME/headgate/config.toml)

    current = "production"

    [contexts.production]
    url = "https://headgate.example:8081"
    token_command = "pass show headgate/production"
    ca = "/etc/headgate/ca.pem"

An option wins over the environment, the environment over the current context. A context chosen by
`--context` is an option. The token and the certificates of a context are for its own URL only: with
another `--url` or `HEADGATE_URL` they are not used.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jobmanager.client.errors import HeadgateError

DEFAULT_URL = "http://127.0.0.1:8081"
_FIELDS = ("url", "token_command", "ca")


@dataclass(frozen=True)
class ServerContext:
    url: str
    token_command: str | None = None
    ca: str | None = None


@dataclass(frozen=True)
class ClientConfiguration:
    current: str | None = None
    contexts: Mapping[str, ServerContext] = field(default_factory=dict)


@dataclass(frozen=True)
class ServerChoice:
    url: str
    environment: Mapping[str, str]
    """The environment with the token command and the certificates of the context, if one was
    chosen."""
    context: str | None = None


def path_of(environment: Mapping[str, str] = os.environ) -> Path:
    named = environment.get("XDG_CONFIG_HOME")
    home = Path(environment.get("HOME", "~")).expanduser()
    return (Path(named) if named else home / ".config") / "headgate" / "config.toml"


def read(path: Path) -> ClientConfiguration:
    """Read the file; without a file there are no contexts."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ClientConfiguration()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise HeadgateError(f"{path} cannot be read: {error}") from error
    return configuration_of(document, str(path))


def configuration_of(document: Mapping[str, Any], path: str) -> ClientConfiguration:
    """Check what the file says. Raises `HeadgateError` with the first fault."""
    unknown = set(document) - {"current", "contexts"}
    if unknown:
        raise HeadgateError(f"{path}: unknown field {min(unknown)!r}: expected current or contexts")
    tables = document.get("contexts", {})
    if not isinstance(tables, Mapping):
        raise HeadgateError(f"{path}: contexts has to be tables, such as [contexts.production]")
    contexts = {name: _context(name, table, path) for name, table in tables.items()}
    current = document.get("current")
    if current is not None and current not in contexts:
        raise HeadgateError(f"{path}: current names the context {current!r}, which is not there")
    return ClientConfiguration(current, contexts)


def choose(
    url: str | None = None,
    context: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> ServerChoice:
    """Return the server that the options `url` and `context`, the environment and the file mean.
    The file is read only if it is needed.
    """
    if url is not None:
        return ServerChoice(url, environment)
    if context is None and (named := environment.get("HEADGATE_URL")):
        return ServerChoice(named, environment)
    configuration = read(path_of(environment))
    if context is not None:
        return _of_context(configuration, environment, context, wins=True)
    chosen = environment.get("HEADGATE_CONTEXT") or configuration.current
    if chosen is None:
        return ServerChoice(DEFAULT_URL, environment)
    return _of_context(configuration, environment, chosen, wins=False)


def _of_context(
    configuration: ClientConfiguration, environment: Mapping[str, str], name: str, *, wins: bool
) -> ServerChoice:
    found = configuration.contexts.get(name)
    if found is None:
        known = ", ".join(configuration.contexts) or "none"
        raise HeadgateError(f"there is no context {name!r} (known: {known}): headgate contexts")
    merged = dict(environment)
    if found.token_command and (wins or not _has_token(environment)):
        merged.pop("HEADGATE_TOKEN", None)
        merged["HEADGATE_TOKEN_COMMAND"] = found.token_command
    if found.ca and (wins or not environment.get("HEADGATE_CA")):
        merged["HEADGATE_CA"] = str(Path(found.ca).expanduser())
    return ServerChoice(found.url, merged, name)


def _has_token(environment: Mapping[str, str]) -> bool:
    return any(
        environment.get(name, "").strip() for name in ("HEADGATE_TOKEN", "HEADGATE_TOKEN_COMMAND")
    )


def _context(name: str, table: Any, path: str) -> ServerContext:
    if not isinstance(table, Mapping):
        raise HeadgateError(f"{path}: contexts.{name} has to be a table with url")
    for field_, value in table.items():
        if field_ not in _FIELDS:
            raise HeadgateError(
                f"{path}: contexts.{name} has an unknown field {field_!r}: expected url, "
                "token_command or ca"
            )
        if not isinstance(value, str):
            raise HeadgateError(f"{path}: contexts.{name}.{field_} has to be text")
    if not table.get("url"):
        raise HeadgateError(f"{path}: contexts.{name} has no url")
    return ServerContext(**table)
