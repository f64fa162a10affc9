"""Stacks of threads as texts, within bounds."""

from jobmanager.protocol.messages import RunnerThread
from taskrunner.core.thread_texts import bounded, of_jvm
from taskrunner.spark.session.session import WarmSession
from taskrunner.thread_dump import read_threads

TOLD = """[
  {"threadId": 1, "threadName": "main", "threadState": "TIMED_WAITING",
   "stackTrace": {"elems": ["java.lang.Thread.sleep(Native Method)\\n", "Main.main(Main.java:3)"]},
   "blockedByLock": "", "holdingLocks": []},
  {"threadId": 7, "threadName": "stream execution thread for [id = 3f]", "threadState": "RUNNABLE"}
]"""


def test_sparks_dump_is_cut_into_threads() -> None:
    first, second = of_jvm(TOLD)

    assert first.name == "jvm: main"
    assert first.text.splitlines() == [
        '"main" Id=1 TIMED_WAITING',
        "    at java.lang.Thread.sleep(Native Method)",
        "    at Main.main(Main.java:3)",
    ]
    assert second.name == "jvm: stream execution thread for [id = 3f]"
    assert second.text == '"stream execution thread for [id = 3f]" Id=7 RUNNABLE\n'


def test_a_long_stack_is_cut_and_too_many_are_left_out() -> None:
    [one] = bounded([RunnerThread(name="a", text="x" * 100_000)])
    many = bounded(RunnerThread(name=str(n), text="y" * 10_000) for n in range(500))

    assert len(one.text) < 20_000
    assert one.text.endswith("cut\n")
    assert sum(len(each.text) for each in many) < 1_100_000
    assert many[-1].text == "further threads are left out\n"
    assert len(bounded(RunnerThread(name=str(n), text="") for n in range(5_000))) == 1_001


def test_without_a_jvm_there_are_the_threads_of_python() -> None:
    found = {one.name: one.text for one in read_threads(WarmSession())}

    assert "test_without_a_jvm" in found["python: MainThread"]
    assert not any(name.startswith("jvm") for name in found)
