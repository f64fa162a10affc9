"""The value of a key group, as people read it."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from taskrunner.keyed import group_state, readable_state
from taskrunner.keyed.group_state import GroupState, UnknownStateFormat
from taskrunner.keyed.readable_state import KeyContents
from taskrunner.keyed.windows import window_state
from taskrunner.keyed.windows.window_state import WindowState


def test_states_of_a_process_function_are_shown_by_name_without_their_expiry() -> None:
    blob = group_state.pack_key(
        {
            "total": Decimal("1.50"),
            "last~ttl": (datetime(2026, 1, 1, tzinfo=UTC), 99),
            "items~ttl": [("a", 1), ("b", 2)],
            "seen~ttl": {date(2026, 1, 2): (b"\x00", 3)},
        }
    )
    value = group_state.pack(GroupState({("ann", 1): blob}, {("ann", 1): [0], (None,): [1500]}))
    assert value is not None

    assert readable_state.contents_of(value) == [
        KeyContents(
            ("ann", 1),
            {
                "total": "1.50",
                "last": "2026-01-01T00:00:00+00:00",
                "items": ["a", "b"],
                "seen": {"2026-01-02": "AA=="},
                "timers": ["1970-01-01T00:00:00+00:00"],
            },
        ),
        KeyContents((None,), {"timers": ["1970-01-01T00:00:01.500000+00:00"]}),
    ]


def test_windows_are_shown_by_key() -> None:
    value = window_state.write(WindowState({("ann",): [1, (2, 3)], ("bob",): {"pane": 4}}))
    assert value is not None

    assert readable_state.contents_of(value) == [
        KeyContents(("ann",), {"contents": [1, [2, 3]]}),
        KeyContents(("bob",), {"pane": 4}),
    ]


def test_what_is_no_state_of_a_key_group_is_said_to_be_none() -> None:
    for read in (readable_state.contents_of, group_state.unpack):
        with pytest.raises(UnknownStateFormat):
            read(b"nonsense")
