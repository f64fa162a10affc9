import pytest

from jobmanager.core.life.failure import FailureKind
from taskrunner.core.directory_proof import Sighting, executors_seen, needs_proof, not_shared
from taskrunner.core.failures import Cause, classify

TOKENS = {"/storage/job": "abc", "/data/.out.headgate": "abc"}


@pytest.mark.parametrize(
    ("master", "is_needed"),
    [
        ("local", False),
        ("local[2]", False),
        ("local[*, 3]", False),
        ("local-cluster[2,1,1024]", True),
        ("spark://127.0.0.1:7077", True),
        ("yarn", True),
        ("k8s://https://10.0.0.1", True),
    ],
)
def test_executors_in_other_processes_have_to_prove(master: str, is_needed: bool) -> None:
    assert needs_proof(master) is is_needed


def test_executors_that_read_every_token_share_the_directories() -> None:
    sightings = [Sighting("a", "1", TOKENS), Sighting("b", "1", TOKENS)]

    assert not_shared(TOKENS, sightings) is None
    assert executors_seen([*sightings, *sightings]) == 2


@pytest.mark.parametrize("found", ["FileNotFoundError: No such file or directory", "", "older"])
def test_the_host_and_the_directory_that_it_does_not_see_are_named(found: str) -> None:
    blind = Sighting("b", "1", {**TOKENS, "/data/.out.headgate": found})

    wrong = not_shared(TOKENS, [Sighting("a", "1", TOKENS), blind, blind])

    assert wrong is not None
    assert wrong.startswith(f"host b does not see /data/.out.headgate ({found}). ")
    assert "mount" in wrong


@pytest.mark.parametrize("name", ["BatchIncomplete", "DirectoryNotShared", "OutputFileChanged"])
def test_output_that_is_not_there_is_infrastructure_and_tried_again(name: str) -> None:
    failure = classify([Cause("StreamingQueryException", "x"), Cause(name, "no file")], "", "out")

    assert (failure.kind, failure.is_restartable) == (FailureKind.INFRASTRUCTURE, True)
    assert failure.message == f"{name}: no file"
