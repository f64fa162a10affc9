"""Starts a reader process: `python -m jobmanager.reader_main LISTENER CHANNEL`.

First of all the process makes sure that it ends with its parent: to import the rest takes seconds.
"""

import contextlib
import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    _end_with_parent()
    from jobmanager.reader_process import serve_reads

    serve_reads(int(sys.argv[1]), int(sys.argv[2]))


def _end_with_parent() -> None:
    """Die when the parent is killed, also while this process is stopped or busy. Linux only;
    elsewhere the end of the channel has to be enough.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    main()
