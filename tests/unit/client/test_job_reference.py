import pytest

from jobmanager.client.answers import JobLine
from jobmanager.client.errors import AmbiguousJob
from jobmanager.client.job_reference import choose

OLD, NEW, OTHER = "aa" * 16, "ab" * 16, "cd" * 16


def a_job(job_id: str, name: str, state: str) -> JobLine:
    return {
        "jid": job_id,
        "name": name,
        "jobType": "STREAMING",
        "schedulerType": "Headgate",
        "state": state,
        "start-time": 0,
        "end-time": -1,
        "duration": 0,
        "last-modification": 0,
        "tasks": {},
        "pending-operators": 0,
        "headgate-state": "running",
        "headgate-meta": {"owner": None, "description": None, "runbook": None, "labels": {}},
    }


JOBS = [
    a_job(OLD, "revenue", "CANCELED"),
    a_job(NEW, "revenue", "RUNNING"),
    a_job(OTHER, "counts", "FAILED"),
]


@pytest.mark.parametrize(
    ("reference", "meant"),
    [("c", OTHER), ("AB", NEW), (OLD, OLD), ("counts", OTHER), ("revenue", NEW)],
)
def test_a_beginning_or_a_name_means_the_one_job_it_fits(reference: str, meant: str) -> None:
    assert choose(JOBS, reference) == meant


def test_a_beginning_that_fits_two_jobs_is_refused_with_both() -> None:
    with pytest.raises(AmbiguousJob, match=f"several jobs \\({OLD[:12]}, {NEW[:12]}"):
        choose(JOBS, "a")


def test_a_name_that_two_live_jobs_have_is_refused() -> None:
    twins = [a_job(OLD, "twin", "RUNNING"), a_job(NEW, "twin", "RESTARTING")]

    with pytest.raises(AmbiguousJob, match="several jobs"):
        choose(twins, "twin")


@pytest.mark.parametrize("reference", ["", "zz", "Revenue"])
def test_what_fits_no_job_is_refused(reference: str) -> None:
    with pytest.raises(AmbiguousJob, match="there is no job"):
        choose(JOBS, reference)


def test_of_ended_jobs_of_one_name_the_newest_is_meant_where_that_does_no_harm() -> None:
    ended = [a_job(OLD, "revenue", "FINISHED"), a_job(NEW, "revenue", "FAILED")]
    ended[1]["start-time"] = 7

    assert choose(ended, "revenue", newest=True) == NEW
    with pytest.raises(AmbiguousJob):
        choose(ended, "revenue")
