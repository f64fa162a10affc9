from taskrunner.core.spark_messages import telling


def test_of_a_query_that_failed_only_the_reason_is_told() -> None:
    message = (
        "[STREAM_FAILED] Query [id = 3, runId = 0] terminated with exception: "
        "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match.\n"
        "Please check number and type of fields.\n"
        "Existing key_schema=(k STRING) and new key_schema=(k INT).\n"
        "If you want to force running the query without schema validation, please set x.\n"
        "However, please note. SQLSTATE: XXKST SQLSTATE: XXKST\n"
        "=== Streaming Query ===\nIdentifier: [id = 3]"
    )
    assert telling(message) == (
        "[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema does not match. "
        "Please check number and type of fields. "
        "Existing key_schema=(k STRING) and new key_schema=(k INT)."
    )


def test_of_an_analysis_the_plan_is_left_out() -> None:
    message = (
        "vertex sums: [UNRESOLVED_COLUMN] A column `x` cannot be resolved. "
        "SQLSTATE: 42703; line 1 pos 4;\n'Aggregate [k#1]"
    )
    assert telling(message) == "vertex sums: [UNRESOLVED_COLUMN] A column `x` cannot be resolved."


def test_a_message_that_is_too_long_is_cut() -> None:
    assert len(telling("x" * 5000)) == 1001
