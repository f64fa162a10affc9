import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmanager.core.json_text import storable, unstorable

TEXTS = st.text(st.sampled_from('\0\\u0d8"ab\ud800\udbff\udc00\N{GRINNING FACE}'))
VALUES = TEXTS | st.lists(TEXTS) | st.dictionaries(TEXTS, TEXTS)


@given(VALUES)
def test_what_cannot_be_stored_is_seen_if_it_is_there(value: Any) -> None:
    text = json.dumps(value)
    assert (unstorable(text.encode()) is None) == _is_storable(_all_text(json.loads(text)))


@given(VALUES)
def test_what_cannot_be_stored_is_replaced_and_nothing_else(value: Any) -> None:
    text = json.dumps(value)
    cleaned = _all_text(json.loads(storable(text)))
    given_text = _all_text(json.loads(text))
    assert _is_storable(cleaned)
    assert len(cleaned) == len(given_text)
    for one, before in zip(cleaned, given_text, strict=True):
        assert one == before or (one == "\ufffd" and not _is_storable(before))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32-be", "latin-1"])
def test_json_in_another_encoding_is_seen(encoding: str) -> None:
    """Python would read it, and what it hides would not be seen."""
    text = json.dumps({"a": "\0 \xe9"}, ensure_ascii=False)
    assert unstorable(text.encode(encoding)) == "text that is not UTF-8"


def test_halves_that_are_not_escaped_are_seen() -> None:
    assert unstorable('"\ud800"'.encode(errors="surrogatepass")) == "text that is not UTF-8"


def _is_storable(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= one <= "\udfff" for one in text)


def _all_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    parts = [*value, *value.values()] if isinstance(value, dict) else value
    return "".join(parts)
