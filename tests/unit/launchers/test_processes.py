"""What other processes of the same user can read of a server."""

import os
import subprocess
import sys

import pytest

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
