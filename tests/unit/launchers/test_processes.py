"""Which process is which, whatever time it is."""

import os
import subprocess
import sys

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
