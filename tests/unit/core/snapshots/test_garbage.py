from dataclasses import replace
from datetime import timedelta

import pytest

from jobmanager.core.ids import CheckpointNumber
from jobmanager.core.life.checkpoint import AbortReason, CheckpointStatus
from jobmanager.core.life.job import JobStatus
from jobmanager.core.snapshots.garbage import (
    CheckpointFound,
    GarbageKind,
    GarbageLimits,
    JobFacts,
    JobFound,
    Judgement,
    judge,
    judge_unknown_job,
    why_over,
)
from tests.support.builders import NOW, a_checkpoint, after

WEEK = timedelta(days=7)


def facts(
    status: JobStatus = JobStatus.RUNNING, *, has_runner: bool = False, over: tuple[int, ...] = ()
) -> JobFacts:
    ended_at = NOW if status.is_terminal else None
    return JobFacts(status, ended_at, has_runner, {CheckpointNumber(n): "over" for n in over})


def found(
    checkpoints: dict[int, set[str] | None] | None = None,
    pool: tuple[str, ...] = (),
    attempts: tuple[int, ...] = (),
) -> JobFound:
    return JobFound(
        {
            CheckpointNumber(number): CheckpointFound(10, names)
            for number, names in (checkpoints or {}).items()
        },
        dict.fromkeys(pool, 100),
        dict.fromkeys(attempts, 1000),
    )


def paths(judged: Judgement) -> list[str]:
    return [one.path for one in judged.garbage]


def test_a_pool_file_that_a_checkpoint_under_way_may_name_is_left() -> None:
    there = found({2: {"pool/b"}}, ("pool/a", "pool/b"))
    uploading = replace(facts(), has_checkpoint_under_way=True)

    judged = judge(uploading, there, GarbageLimits(NOW))

    assert paths(judged) == []
    assert [one.path for one in judged.left] == ["pool/a"]


def test_a_pool_file_goes_when_no_checkpoint_that_stays_names_it() -> None:
    there = found({1: None, 2: {"pool/b", "pool/c"}}, ("pool/a", "pool/b", "pool/c", "pool/d"))

    judged = judge(facts(over=(1,)), there, GarbageLimits(NOW))

    assert paths(judged) == ["checkpoints/1", "pool/a", "pool/d"]
    assert judged.kept == {"checkpoints": 1, "pool_files": 2, "attempts": 0}
    assert [one.bytes for one in judged.garbage] == [10, 100, 100]
    assert judged.garbage[1].why == "no retained checkpoint refers to this file"


def test_a_checkpoint_that_came_after_the_facts_stays_with_all_it_names() -> None:
    judged = judge(facts(over=(1,)), found({9: {"pool/a"}}, ("pool/a",)), GarbageLimits(NOW))

    assert judged.garbage == ()


def test_a_checkpoint_without_a_manifest_stays_while_it_may_get_one() -> None:
    assert paths(judge(facts(), found({3: None}), GarbageLimits(NOW))) == []
    assert paths(judge(facts(over=(3,)), found({3: None}), GarbageLimits(NOW))) == ["checkpoints/3"]


@pytest.mark.parametrize(
    ("status", "has_runner", "older_than", "days", "goes"),
    [
        (JobStatus.RUNNING, True, WEEK, 30, False),
        (JobStatus.RESTARTING, False, WEEK, 30, False),
        (JobStatus.CANCELLED, False, None, 30, False),
        (JobStatus.CANCELLED, False, WEEK, 6, False),
        (JobStatus.CANCELLED, False, WEEK, 7, True),
        (JobStatus.CANCELLED, True, WEEK, 30, False),
        (JobStatus.FAILED, False, WEEK, 8, True),
        (JobStatus.FINISHED, False, None, 0, True),
        (JobStatus.FINISHED, True, None, 0, False),
    ],
)
def test_working_directories_go_when_nothing_can_need_them(
    status: JobStatus, has_runner: bool, older_than: timedelta | None, days: int, goes: bool
) -> None:
    limits = GarbageLimits(NOW + timedelta(days=days), older_than)

    judged = judge(facts(status, has_runner=has_runner), found(attempts=(1, 2)), limits)

    assert paths(judged) == (["attempts/1", "attempts/2"] if goes else [])
    assert judged.kept["attempts"] == (0 if goes else 2)


def test_what_may_hold_the_newest_state_is_named_with_what_would_delete_it() -> None:
    judged = judge(facts(JobStatus.FAILED), found(attempts=(3,)), GarbageLimits(after(60)))

    [left] = judged.left
    assert (left.path, left.kind, left.bytes) == ("attempts/3", GarbageKind.ATTEMPT, 1000)
    assert left.why == (
        "the job failed at 2026-11-16 12:00 UTC; "
        "it may hold the newest state: --older-than deletes it"
    )


def test_the_directory_of_an_unknown_job_goes_only_when_asked_for_and_not_needed() -> None:
    asked = GarbageLimits(NOW, unknown_jobs=True)

    assert judge_unknown_job("file:///x", 5, is_needed=False, limits=asked).left == ()
    assert (
        judge_unknown_job("file:///x", 5, is_needed=False, limits=GarbageLimits(NOW)).garbage == ()
    )
    needed = judge_unknown_job("file:///x", 5, is_needed=True, limits=asked)
    assert needed.garbage == ()
    assert "something that is kept" in needed.left[0].why


def test_why_a_checkpoint_is_over() -> None:
    under_way = a_checkpoint()
    completed = replace(under_way, status=CheckpointStatus.COMPLETED)
    aborted = replace(
        under_way, status=CheckpointStatus.ABORTED, aborted_because=AbortReason.DECLINED_STORAGE
    )

    assert why_over(under_way, None) is None
    assert why_over(completed, None) is None
    assert why_over(aborted, None) == "the checkpoint was aborted: declined_storage"
    assert why_over(completed, NOW) == ("retention released the checkpoint at 2026-11-16 12:00 UTC")
