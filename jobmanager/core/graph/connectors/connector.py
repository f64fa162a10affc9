"""What sources and sinks say about their connector, whatever it is.

A connector is a frozen dataclass with the fields that a user writes. It reads itself from them
(`read`, which notes every fault and never raises), and it answers every question that the checks,
the plan, the rules about roles and paths, and the runner ask; no code knows a connector by name.
`docs/adding-a-connector.md` walks through a new one.

As in `vertex`: call a method of a base class as `Connector.places(self)`, not with `super()`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from jobmanager.core.graph.document_fields import Faults, Fields

if TYPE_CHECKING:
    from jobmanager.core.graph.graph_view import GraphView
    from jobmanager.core.graph.vertex import Vertex

_OF_SPARK = frozenset(["path", "paths", "__paths__"])
_ARCHIVE = "sourcearchivedir"


@dataclass(frozen=True, slots=True)
class Connector:
    name: ClassVar[str]
    """As users write it in the field `connector`."""
    is_suggested: ClassVar[bool] = True
    """Whether messages name it to a user who wrote a connector that does not exist."""

    secret_fields: ClassVar[tuple[str, ...]] = ()
    """Fields in which users may refer to secrets (`${secret:name}`), beside `options`. The reader
    or writer on Spark's side gets the values; a value must not become data or part of a message.
    """

    @classmethod
    def read(cls, fields: Fields) -> Self:
        """Read the connector's own fields, and note their faults."""
        raise NotImplementedError

    @property
    def requires(self) -> tuple[str, ...]:
        """The connector packages that have to be installed (`core/connector_packages`)."""
        return ()

    def places(self) -> Iterator[tuple[str, str]]:
        """Field, and the path or URI in it: everything that the connector reads from or writes
        to. An address on a network is a URI such as `kafka://host:9092`.
        """
        yield from ()

    def check(self, vertex: "Vertex", graph: "GraphView", faults: Faults) -> None:
        """Note faults of the connector's vertex at its place in the graph."""

    def real_time_faults(self, options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Return why Spark's real-time mode cannot use the connector with these options, as field
        and message. A connector that it can use overrides this.
        """
        yield "connector", f"Spark's real-time mode cannot use connector {self.name}"

    def code_in(self, options: Mapping[str, str]) -> str | None:
        """Why the connector needs the role `developer`, as the rest of a sentence about the
        vertex; None: with these options nothing but Headgate's and Spark's own code runs.
        """
        return "has a connector that runs code"

    def option_fault(self, option: str, value: str) -> str | None:
        """Why a server with allowed paths refuses an option: it could lead elsewhere than the
        connector's own fields do. Paths inside of values are looked at in any case.
        """
        return file_option_fault(option, value)


def file_option_fault(option: str, value: str) -> str | None:
    """Why an option would lead Spark's file formats elsewhere than to the vertex's own `path`."""
    if option.lower() in _OF_SPARK:
        return "the place is the vertex's own field `path`: leave this option out"
    if option.lower() == _ARCHIVE and not value.startswith(("/", "file:")):
        return f"{value!r} would be relative to the runner: name an absolute path"
    if "." in option and not option.startswith(("parquet.", "orc.")):
        return (
            f"{option!r} is a setting of a file system, which could lead elsewhere: on a "
            "server with allowed paths it is set for the whole server"
        )
    return None
