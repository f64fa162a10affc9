"""Which places job graphs, savepoints, artifacts and adoptions may name.

A server that takes any path has no rules (`None` stands for that). Rules have roots: what is
below one of them is allowed, everything else is refused with a message that says what is allowed.
The data root of a server is always among them. Its storage is for snapshots only: a graph that
could write there would write into the state of other jobs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from jobmanager.core.paths.location import Location, UnclearLocation, location_of


@dataclass(frozen=True, slots=True)
class Root:
    """A place below which everything is allowed."""

    location: Location
    """As it was named."""
    resolved: Location
    """The same without symbolic links; of what is no file the same."""


@dataclass(frozen=True, slots=True)
class AllowedPaths:
    """One rule."""

    data_root: str
    """What relative paths are relative to."""
    roots: tuple[Root, ...]

    def location(self, text: str) -> Location:
        """The place that a text names. Raises `UnclearLocation`."""
        return location_of(text, self.data_root)

    def fault(self, text: str) -> str | None:
        """Why a text cannot be taken by what it says; None: it can, if its links stay inside."""
        try:
            found = self.location(text)
        except UnclearLocation as error:
            return f"{error}; {self._what_is_allowed()}"
        named = [root.location for root in self.roots] + [root.resolved for root in self.roots]
        if any(root.contains(found) for root in named):
            return None
        return f"{found} is not allowed: {self._what_is_allowed()}"

    def link_fault(self, text: str, resolved: Location) -> str | None:
        """Why the place that a text leads to through symbolic links cannot be taken."""
        if any(root.resolved.contains(resolved) for root in self.roots):
            return None
        return (
            f"{text} leads to {resolved} through a symbolic link, which is not allowed: "
            f"{self._what_is_allowed()}"
        )

    def _what_is_allowed(self) -> str:
        told = ", ".join(dict.fromkeys(str(root.location) for root in self.roots))
        return f"this server allows {told} and what is below (headgate serve --allow-path)"


@dataclass(frozen=True, slots=True)
class PathRules:
    """The rules of a server."""

    graphs: AllowedPaths
    """For what a job graph names: sources, sinks, models, artifacts."""
    snapshots: AllowedPaths
    """For savepoints and what a job starts from: the same and the server's storage."""


def root_fault(text: str) -> str | None:
    """What is wrong with a root that a server is told; None: nothing."""
    if not ("://" in text or text.startswith(("/", "file:"))):
        return f"{text!r} is relative: name an absolute path, or a URI such as s3://bucket/data"
    try:
        location_of(text, "/")
    except UnclearLocation as error:
        return str(error)
    return None


def roots_of(
    allowed: Sequence[str], data_root: str, storage: Sequence[str], *, takes_any: bool
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The roots for graphs and for snapshots; None: any path is taken, as a server does that only
    its own machine reaches (`takes_any`) and that was told no roots.
    """
    if takes_any and not allowed:
        return None
    graphs = tuple(dict.fromkeys([*allowed, data_root]))
    return graphs, tuple(dict.fromkeys([*graphs, *storage]))
