import pytest

from jobmanager.core.failure import FailureKind
from taskrunner.core.failures import Cause, classify


@pytest.mark.parametrize(
    ("causes", "kind"),
    [
        ([Cause("AnalysisException", "[UNRESOLVED_COLUMN] no a")], FailureKind.INVALID_JOB),
        ([Cause("ParseException", "[PARSE_SYNTAX_ERROR]")], FailureKind.INVALID_JOB),
        ([Cause("InvalidVertex", "vertex a: no")], FailureKind.INVALID_JOB),
        (
            [Cause("StreamingQueryException", "x"), Cause("AnalysisException", "[PATH_NOT_FOUND]")],
            FailureKind.INVALID_JOB,
        ),
        ([Cause("PythonException", "ValueError: no")], FailureKind.USER_CODE),
        ([Cause("SparkException", "x"), Cause("OutOfMemoryError", "")], FailureKind.OUT_OF_MEMORY),
        (
            [Cause("StreamingQueryException", "x"), Cause("Y", "[CAST_INVALID_INPUT] 'a'")],
            FailureKind.DATA,
        ),
        ([Cause("SparkArithmeticException", "[DIVIDE_BY_ZERO] no")], FailureKind.DATA),
        ([Cause("ConnectException", "refused")], FailureKind.INFRASTRUCTURE),
        ([], FailureKind.INFRASTRUCTURE),
    ],
)
def test_the_kind_follows_from_the_causes(causes: list[Cause], kind: FailureKind) -> None:
    assert classify(causes, "", None).kind is kind


def test_only_an_invalid_job_is_not_worth_another_try() -> None:
    assert not classify([Cause("AnalysisException", "x")], "", None).is_restartable
    assert classify([Cause("SparkException", "[DIVIDE_BY_ZERO]")], "", None).is_restartable


def test_the_message_is_the_line_that_tells_most() -> None:
    causes = [
        Cause("StreamingQueryException", "[STREAM_FAILED] Query terminated"),
        Cause("SparkException", "Job aborted due to stage failure\nDriver stacktrace:"),
        Cause("SparkNumberFormatException", "[CAST_INVALID_INPUT] The value 'a' cannot be cast"),
    ]

    failure = classify(causes, "stack", "out")

    assert failure.message == "[CAST_INVALID_INPUT] The value 'a' cannot be cast"
    assert (failure.stack, failure.region) == ("stack", "out")


def test_without_a_telling_cause_the_innermost_that_speaks_is_shown() -> None:
    causes = [Cause("SparkException", "outer"), Cause("IOException", "disk full"), Cause("X", "")]

    assert classify(causes, "", None).message == "IOException: disk full"
