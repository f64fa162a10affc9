"""State is data: whatever a pickle names, nothing of it runs."""

import io
import pickle
import pickletools
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskrunner.keyed import group_state, plain_pickle, readable_state
from taskrunner.keyed.group_state import GroupState
from taskrunner.keyed.plain_pickle import CodeInState, NotPlainData
from taskrunner.keyed.windows import window_state
from taskrunner.keyed.windows.arrivals import plain_value
from tests.support.stranger import Command

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.datetimes(timezones=st.just(UTC) | st.none())
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.decimals(allow_nan=False)
    | st.uuids()
    | st.complex_numbers(allow_nan=False)
)
PLAIN = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(LEAVES, inner)
        | st.sets(LEAVES)
        | st.frozensets(LEAVES)
    ),
    max_leaves=20,
)


@given(PLAIN)
def test_plain_data_comes_back_as_it_was(value: Any) -> None:
    assert plain_pickle.loads(plain_pickle.dumps(value)) == value
    assert plain_pickle.loads(pickle.dumps(value, protocol=5)) == value  # as older versions wrote


@given(st.uuids(), st.integers(0, 3))
def test_a_uuid_is_one_again_with_all_its_methods(value: UUID, copies: int) -> None:
    found = plain_pickle.loads(plain_pickle.dumps([value] * copies + [value]))

    assert all(type(one) is UUID and one.hex == value.hex for one in found)


def test_the_command_in_a_pickle_is_not_run(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    blob = pickle.dumps(Command(str(marker)), protocol=5)
    in_a_key = pickle.dumps((1, {("ann",): blob}, {}, {}), protocol=5)
    in_a_group = pickle.dumps((1, {("ann",): Command(str(marker))}, {}, {}), protocol=5)
    reads: list[tuple[Callable[[bytes], Any], bytes]] = [
        (plain_pickle.loads, blob),
        (group_state.unpack_key, blob),
        (group_state.unpack, in_a_group),
        (window_state.read, in_a_group),
        (readable_state.contents_of, in_a_group),
        (readable_state.contents_of, in_a_key),
    ]
    for read, value in reads:
        with pytest.raises(CodeInState, match=r"posix\.system"):
            read(value)

    assert not marker.exists()
    pickle.loads(blob)
    assert marker.exists()  # which a plain loader does


@pytest.mark.parametrize(
    "program",
    [
        b"cos\nsystem\n.",
        b"(S'true'\nios\nsystem\n.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93.",
        b"\x80\x04\x8c\x08builtins\x8c\x07getattr\x93.",
        b"\x80\x04\x8c\x08datetime\x8c\x10sys.modules.real\x93.",
        b"\x80\x04\x8c\x08datetime\x8c\x11datetime.__class_\x93.",
        b"\x80\x04\x8c\x07copyreg\x8c\x0e_reconstructor\x93.",
        b"\x80\x04\x8c\x05numpy\x8c\x04load\x93.",
        b"\x80\x04\x8c\x06pandas\x8c\x0bread_pickle\x93.",
    ],
)
def test_no_way_to_name_something_else_is_open(program: bytes) -> None:
    with pytest.raises(CodeInState):
        plain_pickle.loads(program)


def test_a_pickle_cannot_change_a_class_for_all_who_come_after() -> None:
    """The opcode BUILD sets attributes of whatever is on the stack, a class too."""
    for module, name in (("uuid", "UUID"), ("datetime", "datetime"), ("decimal", "Decimal")):
        program = b"\x80\x04" + _text(module) + _text(name) + b"\x93"
        program += b"N" + b"}" + _text("hex") + _text("00") + b"s" + b"\x86" + b"b."
        assert [op.name for op, _, _ in pickletools.genops(program)][-2] == "BUILD"

        with pytest.raises((CodeInState, TypeError, AttributeError)):
            plain_pickle.loads(program)
    assert UUID(int=1).hex == "0" * 31 + "1"


def test_bytes_are_never_taken_for_addresses() -> None:
    """NumPy would, for an array of objects that says it is kept as bytes."""
    array = b"cnumpy._core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR"
    dtype = b"cnumpy\ndtype\n(S'O8'\nI00\nI01\ntR(I3\nS'|'\nNNNI-1\nI-1\nI0\ntb"
    program = array + b"(I1\n(I1\nt" + dtype + b"I00\nC\x08AAAAAAAAtb."

    with pytest.raises(CodeInState, match="addresses"):
        plain_pickle.loads(program)


def test_arrays_that_older_versions_kept_are_lists() -> None:
    kept = {
        "whole": np.array([1, 2]),
        "real": np.array([1.5]),
        "texts": np.array(["a", None], dtype=object),
        "strided": np.array([[1, 2], [3, 4]])[:, 0],
        "at": pd.Timestamp("2026-01-02 03:04:05.000006"),
        "one": np.int64(7),
    }

    assert plain_pickle.loads(pickle.dumps(kept, protocol=5)) == {
        "whole": [1, 2],
        "real": [1.5],
        "texts": ["a", None],
        "strided": [1, 3],
        "at": datetime.fromisoformat("2026-01-02T03:04:05.000006"),
        "one": 7,
    }


def test_what_windows_keep_of_nested_columns_is_plain() -> None:
    struct = {"l": np.array([1, 2]), "t": pd.Timestamp("2026-01-02"), "m": [("k", np.int32(1))]}

    plain = plain_value(struct)

    assert plain == {"l": [1, 2], "t": datetime.fromisoformat("2026-01-02"), "m": [("k", 1)]}
    assert plain_pickle.loads(plain_pickle.dumps(plain)) == plain


class Custom:
    pass


@pytest.mark.parametrize("value", [Custom(), np.int64(1), pd.Timestamp("2026-01-01"), io.BytesIO()])
def test_what_could_not_be_read_again_is_not_written(value: Any) -> None:
    with pytest.raises(NotPlainData, match=type(value).__qualname__):
        plain_pickle.dumps([value])


def test_a_whole_group_survives() -> None:
    state = GroupState()
    key = (date(2026, 1, 1), Decimal("1.5"), time(1), timedelta(3), UUID(int=5))
    state.blobs[key] = group_state.pack_key({"seen": [key, {"x": b"y"}]})
    packed = group_state.pack(state)

    assert group_state.unpack(packed).blobs == state.blobs
    assert group_state.unpack_key(state.blobs[key]) == {"seen": [key, {"x": b"y"}]}


def _text(text: str) -> bytes:
    return b"\x8c" + bytes([len(text)]) + text.encode()
