"""Where paths lead to in the end: the part of the rules about paths that asks the file system."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from jobmanager.core.errors import Fault
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.paths import graph_places
from jobmanager.core.paths.allowed_paths import AllowedPaths, PathRules, Root
from jobmanager.core.paths.location import Location, file_location, location_of


def path_rules(graphs: Iterable[str], snapshots: Iterable[str], data_root: str) -> PathRules:
    """The rules that have these roots. Raises `UnclearLocation`."""
    return PathRules(_rule(graphs, data_root), _rule(snapshots, data_root))


def place_fault(rule: AllowedPaths, text: str) -> str | None:
    """Why a path or URI cannot be taken, by its name or by where it leads; None: it can."""
    return rule.fault(text) or rule.link_fault(text, resolved(rule.location(text)))


def file_fault(rule: AllowedPaths, path: Path) -> str | None:
    """The same of a file or directory that is about to be used."""
    return place_fault(rule, str(path))


def graph_faults(rule: AllowedPaths, graph: JobGraph) -> Sequence[Fault]:
    """Every place in a graph that cannot be taken, and every option that hides one."""
    found = graph_places.option_faults(graph)
    for one in graph_places.places_in(graph):
        if fault := place_fault(rule, one.text):
            found.append(Fault(one.vertex, one.field, fault))
    return found


def resolved(location: Location) -> Location:
    """The place without symbolic links; what is not there yet is taken as it is named."""
    if not location.is_file:
        return location
    return file_location(os.path.realpath(location.as_written))


def _rule(roots: Iterable[str], data_root: str) -> AllowedPaths:
    found = dict.fromkeys(location_of(one, data_root) for one in roots)
    return AllowedPaths(data_root, tuple(Root(one, resolved(one)) for one in found))
