import pytest

from taskrunner.spark.session.java_options import (
    DIRECTORY,
    JAVA_OPTIONS,
    quoted,
    with_collector,
    with_temporary_directory,
)

SOCKETS = "spark.python.unix.domain.socket.dir"


def test_the_jvm_uses_the_runners_temporary_directory_and_the_jobs_own_options_win(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(DIRECTORY, "/data/tmp/0123456789ab")

    chosen = with_temporary_directory({JAVA_OPTIONS: "-Dmine=1"}, is_local=True)

    assert chosen[JAVA_OPTIONS] == (
        "-Djava.io.tmpdir=/data/tmp/0123456789ab -XX:+PerfDisableSharedMem -Dmine=1"
    )
    assert SOCKETS in chosen


def test_executors_on_other_machines_keep_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DIRECTORY, "/data/tmp/0123456789ab")

    assert SOCKETS not in with_temporary_directory({}, is_local=False)


def test_without_a_directory_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DIRECTORY, raising=False)

    assert with_temporary_directory({"a": "b"}, is_local=True) == {"a": "b"}


@pytest.mark.parametrize(
    ("option", "read_by_spark"),
    [
        ("-Dx=/plain/path", "-Dx=/plain/path"),
        ("-Dx=/with a space", '"-Dx=/with a space"'),
        ('-Dx=a"b\\c', '"-Dx=a\\"b\\\\c"'),
    ],
)
def test_an_option_with_a_space_stays_one_option(option: str, read_by_spark: str) -> None:
    assert quoted(option) == read_by_spark


@pytest.mark.parametrize("heap", [{}, {"spark.driver.memory": "4g"}])
def test_a_small_heap_is_collected_by_all_threads_at_once(
    heap: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_TOOL_OPTIONS", raising=False)
    assert with_collector({**heap, JAVA_OPTIONS: "-Dmine=1"})[JAVA_OPTIONS] == (
        "-XX:+UseParallelGC -Dmine=1"
    )


@pytest.mark.parametrize(
    "chosen", [{"spark.driver.memory": "16g"}, {JAVA_OPTIONS: "-Dmine=1 -XX:+UseZGC"}]
)
def test_a_large_heap_and_a_job_with_a_collector_of_its_own_keep_theirs(
    chosen: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_TOOL_OPTIONS", raising=False)
    assert with_collector(chosen) == chosen


def test_a_collector_of_the_whole_machine_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xss4m -XX:+UseSerialGC")
    assert with_collector({}) == {}
