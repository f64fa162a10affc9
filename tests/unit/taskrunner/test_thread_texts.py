"""Stacks of threads as texts, within bounds."""

from jobmanager.protocol.messages import RunnerThread
from taskrunner.core.thread_texts import bounded, of_jvm
from taskrunner.spark.session.session import WarmSession
from taskrunner.thread_dump import read_threads

PRINTED = """2026-11-18 10:15:42
Full thread dump OpenJDK 64-Bit Server VM (17.0.12+7 mixed mode):

Threads class SMR info:
_java_thread_list=0x00007f, length=2, elements={
0x00007f
}

"main" #1 prio=5 os_prio=0 cpu=1.2ms elapsed=3.4s tid=0x0 nid=0x1 waiting on condition
   java.lang.Thread.State: TIMED_WAITING (sleeping)
\tat java.lang.Thread.sleep(java.base@17.0.12/Native Method)

"stream execution thread for [id = 3f, runId = 9c]" #42 daemon prio=5 runnable
   java.lang.Thread.State: RUNNABLE

"G1 Conc#0" os_prio=0 cpu=0.1ms elapsed=3.4s tid=0x0 nid=0x2 runnable

JNI global refs: 20, weak refs: 0
"""


def test_the_jvms_text_is_cut_into_threads() -> None:
    found = list(of_jvm(PRINTED))

    assert [one.name for one in found] == [
        "jvm: main",
        "jvm: stream execution thread for [id = 3f, runId = 9c]",
        "jvm: G1 Conc#0",
    ]
    assert "java.lang.Thread.sleep" in found[0].text
    assert "JNI" not in found[2].text


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
