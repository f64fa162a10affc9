import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.json_text import holds_nul, without_nul

TEXTS = st.text(st.sampled_from('\0\\u0"ab'))
VALUES = TEXTS | st.lists(TEXTS) | st.dictionaries(TEXTS, TEXTS)


@given(VALUES)
def test_a_nul_is_seen_if_there_is_one(value: Any) -> None:
    assert holds_nul(json.dumps(value).encode()) == ("\0" in _all_text(value))


@given(VALUES)
def test_nothing_else_is_changed(value: Any) -> None:
    cleaned = json.loads(without_nul(json.dumps(value)))
    assert _all_text(cleaned) == _all_text(value).replace("\0", "\N{REPLACEMENT CHARACTER}")


def _all_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    parts = [*value, *value.values()] if isinstance(value, dict) else value
    return "".join(parts)
