"""Low priority while nobody waits, and the normal priority as soon as somebody does."""

import subprocess
import sys

_PROCESS = """
import os, subprocess, threading
from pathlib import Path
from taskrunner import cpu_priority
DROP

def shown():
    try:
        group = Path("/proc/self/autogroup").read_text().split()[-1]
    except OSError:
        group = "none"
    return group, os.getpriority(os.PRIO_PROCESS, 0), os.getpriority(os.PRIO_PROCESS, child.pid)

child = subprocess.Popen(["sleep", "60"])
before = shown()
wanted = threading.Event()
cpu_priority.lower_until(wanted.wait)
low = shown()
wanted.set()
for _ in range(100):
    if shown() == before:
        break
    threading.Event().wait(0.1)
print(before, low, shown(), sep="|")
child.kill()
"""


# The change of user closes /proc/self to the process; it is opened again (PR_SET_DUMPABLE).
_DROP = """
import ctypes
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
"""


def run(prelude: str) -> list[list[str]]:
    """The weight of the session, and the niceness of the process and of a child: before, low, and
    in the end.
    """
    said = subprocess.run(
        [sys.executable, "-c", _PROCESS.replace("DROP", prelude)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        start_new_session=True,
    )
    return [one.strip("()").split(", ") for one in said.stdout.splitlines()[-1].split("|")]


def test_the_priority_comes_back() -> None:
    before, low, after = run("")

    assert after == before
    if "'none'" not in before:
        assert low != before


def test_an_ordinary_user_gets_the_priority_back() -> None:
    before, low, after = run(_DROP)

    assert after == before
    assert low[1:] == before[1:], "its niceness could not be taken back"
    if "'none'" not in before:
        assert low[0] != before[0]
