"""In which directories Spark can keep the state of jobs."""

from pathlib import Path

import pytest

from jobmanager.core.snapshots.storage_uri import fault_of_working_directory


@pytest.mark.parametrize("name", ["headgate", "a+b", "Zoë", "a,b(2)", "x@y=1", "~u"])
def test_a_name_that_hadoop_writes_as_it_is_can_be_used(name: str) -> None:
    assert fault_of_working_directory(Path("/var/lib") / name / "storage") is None


@pytest.mark.parametrize("sign", [" ", "\t", "%", "#", "?", '"', "[", "]", "{", "|", "\\"])
def test_a_name_that_hadoop_would_escape_is_refused_with_the_sign(sign: str) -> None:
    fault = fault_of_working_directory(Path(f"/var/lib/my{sign}data/storage"))

    assert fault is not None
    assert f"my{sign}data" in fault
    assert repr(sign) in fault
    assert "choose another path" in fault
