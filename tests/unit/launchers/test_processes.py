"""Which process is which, whatever time it is, and what other processes can read of a server."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from jobmanager.launchers import processes

_RENAMED = """
import sys
open("/proc/self/comm", "w").write("a) (b c")
print("renamed", flush=True)
sys.stdin.read()
"""


def test_a_process_is_known_by_when_it_started_since_the_machine_did() -> None:
    myself = os.getpid()
    started_at = processes.started_at(myself)
    since_boot = psutil.Process(myself).create_time() - psutil.boot_time()
    assert abs(started_at - since_boot) < 2
    assert processes.is_same(myself, started_at)
    assert not processes.is_same(myself, started_at + 1)


def test_a_process_that_an_earlier_version_wrote_down_is_known_by_its_date() -> None:
    myself = psutil.Process()
    assert processes.is_same(myself.pid, myself.create_time())
    assert not processes.is_same(myself.pid, myself.create_time() + 3600)


def test_a_process_that_has_ended_is_nobody() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    started_at = processes.started_at(child.pid)
    child.wait()
    assert not processes.is_same(child.pid, started_at)
    with pytest.raises(processes.NoSuchProcess):
        processes.started_at(child.pid)


def test_a_name_with_brackets_and_spaces_does_not_confuse() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", _RENAMED], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.readline()
    try:
        assert processes.is_same(child.pid, processes.started_at(child.pid))
        assert processes.started_at(child.pid) > 1
    finally:
        child.communicate()


def test_a_process_that_was_started_a_moment_ago_has_its_mark() -> None:
    """The kernel copies its environment after the call that starts it has returned: of a hundred
    looks, about twenty came too early. A kill missed the process.
    """
    for number in range(100):
        mark = f"{processes.MARKER}={number}"
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"],
            stdin=subprocess.PIPE,
            env={processes.MARKER: str(number)},
        )
        try:
            assert mark.encode() in processes._environment(Path(f"/proc/{child.pid}"))
        finally:
            child.kill()
            child.communicate()


# Root may read everything, so that both processes become somebody else, where root runs the test.
# To change the user closes the memory of a process as well: it is opened again (PR_SET_DUMPABLE).
_SERVER = """
import ctypes, os, sys
from jobmanager.launchers import processes
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
print("open", flush=True)
sys.stdin.readline()
processes.hide_memory()
print("hidden", flush=True)
sys.stdin.read()
"""
_USER_CODE = """
import os, sys
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
print(open(f"/proc/{sys.argv[1]}/environ").read())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_the_environment_of_a_server_is_closed_to_other_processes_of_its_user() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        env={**os.environ, "SOME_SECRET": "sw0rdfish"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stdout.readline() == "open\n"
        before = _look_at(server.pid)
        server.stdin.write("hide\n")
        server.stdin.flush()
        assert server.stdout.readline() == "hidden\n"
        after = _look_at(server.pid)
        server.kill()

    assert "sw0rdfish" in before.stdout
    assert "PermissionError" in after.stderr
    assert "sw0rdfish" not in after.stdout


def _look_at(pid: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _USER_CODE, str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False)
