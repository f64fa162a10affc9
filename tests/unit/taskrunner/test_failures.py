import pytest

from jobmanager.core.life.failure import FailureKind
from taskrunner.core.failures import Cause, classify

DIVISION = "[DIVIDE_BY_ZERO] Division by zero. Use `try_divide` to tolerate it. SQLSTATE: 22012"
NO_COLUMN = "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `prize`. SQLSTATE: 42703"
STREAM_FAILED = f"[STREAM_FAILED] Query terminated with exception: {DIVISION} SQLSTATE: XXKST"
UNREADABLE = "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file a. SQLSTATE: KD001"
OTHER_TYPE = (
    "[FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH] Expected int, actual BINARY. "
    "SQLSTATE: KD001"
)


@pytest.mark.parametrize(
    ("causes", "kind"),
    [
        ([Cause("AnalysisException", NO_COLUMN)], FailureKind.INVALID_JOB),
        ([Cause("ParseException", "[PARSE_SYNTAX_ERROR]")], FailureKind.INVALID_JOB),
        ([Cause("InvalidVertex", "vertex a: no")], FailureKind.INVALID_JOB),
        ([Cause("SparkUnsupportedOperationException", "no. SQLSTATE: 0A000")], "invalid_job"),
        (
            [Cause("StreamingQueryException", "x"), Cause("AnalysisException", "[PATH_NOT_FOUND]")],
            FailureKind.INVALID_JOB,
        ),
        ([Cause("PythonException", "ValueError: no")], FailureKind.USER_CODE),
        (
            [Cause("SparkRuntimeException", "[USER_RAISED_EXCEPTION] no SQLSTATE: P0001")],
            "user_code",
        ),
        ([Cause("SparkException", "[FAILED_EXECUTE_UDF] f SQLSTATE: 39000")], "user_code"),
        ([Cause("SparkArithmeticException", DIVISION)], FailureKind.DATA),
        ([Cause("StreamingQueryException", STREAM_FAILED)], FailureKind.DATA),
        ([Cause("SparkException", "[MALFORMED_CSV_RECORD] a. SQLSTATE: KD000")], FailureKind.DATA),
        (
            [Cause("SparkException", UNREADABLE), Cause("RuntimeException", "not a Parquet file")],
            FailureKind.DATA,
        ),
        ([Cause("ConnectException", "refused")], FailureKind.INFRASTRUCTURE),
        ([Cause("StreamingQueryException", "[STREAM_FAILED] SQLSTATE: XXKST")], "infrastructure"),
        ([], FailureKind.INFRASTRUCTURE),
    ],
)
def test_the_kind_follows_from_the_causes(causes: list[Cause], kind: str) -> None:
    assert classify(causes, "", None).kind == kind


@pytest.mark.parametrize(
    "cause",
    [
        Cause("OutOfMemoryError", ""),
        Cause("SparkOutOfMemoryError", "[UNABLE_TO_ACQUIRE_MEMORY] 65536. SQLSTATE: 53200"),
        Cause(
            "SparkException",
            "Job aborted: Lost task 0.3: java.lang.OutOfMemoryError: Java heap space",
        ),
        Cause("SparkException", "[AGGREGATE_OUT_OF_MEMORY] no. SQLSTATE: 82001"),
        Cause(
            "SparkException",
            "ExecutorLostFailure (executor 3 exited caused by one of the running tasks) Reason: "
            "Container killed by YARN for exceeding physical memory limits. 5.5 GB of 5.5 GB used.",
        ),
        Cause(
            "SparkException",
            "ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: "
            "Command exited with code 137",
        ),
        Cause("SparkException", "The executor with id 4 exited with exit code 137(SIGKILL)"),
        Cause("Py4JJavaError", "java.lang.OutOfMemoryError: GC overhead limit exceeded"),
        Cause("OSError", "[Errno 12] Cannot allocate memory"),
        Cause("PythonException", "Traceback (most recent call last):\n  f()\nMemoryError"),
    ],
)
def test_memory_that_ran_out_is_told_by_names_and_words(cause: Cause) -> None:
    outer = Cause("StreamingQueryException", "[STREAM_FAILED] SQLSTATE: XXKST")

    assert classify([outer, cause], "", None).kind is FailureKind.OUT_OF_MEMORY


def test_memory_that_ran_out_inside_of_a_read_is_not_the_files_fault() -> None:
    causes = [Cause("SparkException", UNREADABLE), Cause("OutOfMemoryError", "Java heap space")]

    assert classify(causes, "", None).kind is FailureKind.OUT_OF_MEMORY


def test_a_network_that_fails_inside_of_a_read_is_infrastructure() -> None:
    causes = [
        Cause("SparkException", UNREADABLE),
        Cause("SocketTimeoutException", "Read timed out"),
    ]

    assert classify(causes, "", None).kind is FailureKind.INFRASTRUCTURE


def test_an_executor_that_is_gone_is_lost() -> None:
    gone = "ExecutorLostFailure (executor 2 exited unrelated to the running tasks) Reason: drained"

    assert classify([Cause("SparkException", gone)], "", None).kind is FailureKind.LOST


def test_the_function_that_spark_calls_the_users_is_our_sink() -> None:
    ours = "[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred. SQLSTATE: 39000"
    causes = [Cause("ForeachBatchUserFuncException", ours), Cause("OSError", "disk full")]

    failure = classify(causes, "", None)

    assert failure.kind is FailureKind.INFRASTRUCTURE
    assert failure.message == "OSError: disk full"


@pytest.mark.parametrize(
    ("cause", "restartable"),
    [
        (Cause("AnalysisException", NO_COLUMN), False),
        (Cause("SparkException", OTHER_TYPE), False),
        (Cause("SparkFileNotFoundException", "[FAILED_READ_FILE.FILE_NOT_EXIST] a"), False),
        (Cause("X", "[STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] no. SQLSTATE: XXKST"), False),
        (Cause("SparkException", UNREADABLE), True),
        (Cause("SparkArithmeticException", DIVISION), True),
        (Cause("PythonException", "ValueError: no"), True),
        (Cause("OutOfMemoryError", ""), True),
    ],
)
def test_what_the_next_attempt_would_meet_again_is_not_worth_another_try(
    cause: Cause, restartable: bool
) -> None:
    assert classify([cause], "", None).is_restartable is restartable


def test_input_that_has_moved_is_said_in_words_that_help() -> None:
    spark = "Wrong basePath /b for the root path: file:/a/1.json\n=== Streaming Query ==="

    failure = classify([Cause("StreamingQueryException", spark)], "stack", "out")

    assert (failure.kind, failure.is_restartable) == (FailureKind.INVALID_JOB, False)
    assert "has read file:/a/1.json, and the graph now says /b" in failure.message
    assert (failure.stack, failure.region) == ("stack", "out")


def test_the_message_is_the_line_that_tells_most() -> None:
    causes = [
        Cause("StreamingQueryException", "[STREAM_FAILED] Query terminated"),
        Cause("SparkException", "Job aborted due to stage failure\nDriver stacktrace:"),
        Cause("SparkNumberFormatException", "[CAST_INVALID_INPUT] 'a' is none. SQLSTATE: 22018"),
    ]

    failure = classify(causes, "stack", "out")

    assert failure.message == "[CAST_INVALID_INPUT] 'a' is none. SQLSTATE: 22018"
    assert (failure.stack, failure.region) == ("stack", "out")


def test_of_a_graph_that_spark_refuses_the_vertex_is_named() -> None:
    causes = [
        Cause("InvalidVertex", f"vertex big: {NO_COLUMN}"),
        Cause("AnalysisException", NO_COLUMN),
    ]

    assert classify(causes, "", None).message.startswith("InvalidVertex: vertex big: [UNRESOLVED")


def test_of_a_python_traceback_the_last_line_is_shown() -> None:
    said = "[PYTHON_EXCEPTION]\nTraceback (most recent call last):\n  f()\nValueError: row 7\n"

    assert classify([Cause("PythonException", said)], "", None).message == (
        "PythonException: ValueError: row 7"
    )


def test_without_a_telling_cause_the_innermost_that_speaks_is_shown() -> None:
    causes = [Cause("SparkException", "outer"), Cause("IOException", "disk full"), Cause("X", "")]

    assert classify(causes, "", None).message == "IOException: disk full"


def test_state_that_was_not_loaded_ends_the_job_and_says_what_to_do() -> None:
    told = (
        "Traceback (most recent call last):\n"
        "taskrunner.keyed.plain_pickle.CodeInState: the state names posix.system\n"
    )

    failure = classify([Cause("PythonException", told)], "", "out")

    assert failure.kind is FailureKind.INVALID_JOB
    assert not failure.is_restartable
    assert failure.message.startswith("the state names posix.system; start the job from another")
