"""The operating system's limit on the files of a process, which counts connections too."""

import resource

import structlog

_log = structlog.get_logger(__name__)
_FOR_OTHERS = 1000
"""Files that are no connections of clients: of the database, logs, processes, storage."""


def room_for_connections(wanted: int) -> int:
    """Raise the limit of open files as far as is needed and allowed. Returns how many connections
    there may be, so that files remain for everything else: a server without any can neither reach
    its database nor start a runner.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _FOR_OTHERS
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    room = room_below(soft, wanted)
    if room < wanted:
        _log.warning(
            "fewer connections than wanted: the limit of open files (ulimit -n) is too low",
            wanted=wanted,
            connections=room,
            open_files=soft,
        )
    return room


def room_below(open_files: int, wanted: int) -> int:
    """Return how many connections a limit of open files leaves room for."""
    if open_files == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, open_files - min(_FOR_OTHERS, open_files // 2)))
