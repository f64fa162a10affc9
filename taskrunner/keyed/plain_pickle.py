"""Plain data as bytes, and back: pickles that can hold data and nothing that runs.

A pickle is a program: `pickle.loads` calls whatever it names. State comes from checkpoints and
savepoints, and a savepoint may have been written by anybody. So `loads` knows the few types that
state may consist of, and refuses every other name (`CodeInState`) before it is imported.

What a pickle does get is harmless also if it is used in ways that no writer would:

* types in C, which cannot be changed (`BUILD` sets attributes, of classes too);
* for a type in Python a maker in its place, which has no attributes to set;
* for NumPy's arrays, which only older versions of Headgate kept, a reader of our own that gives
  lists: NumPy's own would take bytes for addresses if it is told that they are.
"""

import io
import pickle
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NoReturn, cast
from uuid import UUID

import numpy as np
import pandas as pd

PROTOCOL = 5


class CodeInState(Exception):
    """State names something that is not plain data, and was not read."""


class NotPlainData(TypeError):
    """Something was to be kept that is no plain data."""


def dumps(value: Any) -> bytes:
    """Raises `NotPlainData` for an instance of any class that `loads` would refuse."""
    target = io.BytesIO()
    _Pickler(target, PROTOCOL).dump(value)
    return target.getvalue()


def loads(data: bytes) -> Any:
    """Raises `CodeInState`, or what `pickle` raises for bytes that are no pickle."""
    return _Unpickler(io.BytesIO(data)).load()


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> Any:
        try:
            return _READABLE[module, name]
        except KeyError:
            raise CodeInState(
                f"the state names {module}.{name}, which is not plain data: it was not written by "
                "Headgate, and is not loaded"
            ) from None


class _Frozen(type):
    """Of classes that a pickle can call and not change."""

    def __setattr__(cls, name: str, value: Any) -> NoReturn:
        raise CodeInState(f"the state sets the attribute {name!r} of a class, and is not loaded")


class _UuidMaker(metaclass=_Frozen):
    def __new__(cls) -> Any:  # what comes next in the pickle gives the UUID its number
        return object.__new__(UUID)


class _TimestampMaker(metaclass=_Frozen):
    """A time of pandas, as its pickles make one."""

    def __new__(cls, value: int, freq: object, tz: object, reso: int = 10) -> Any:
        units = {7: "s", 8: "ms", 9: "us", 10: "ns"}
        found = pd.Timestamp(value, unit=cast(Any, units[reso]))
        return found.to_pydatetime(warn=False)


class _Dtype(metaclass=_Frozen):
    """The type of an array's elements, by its name."""

    __slots__ = ("name", "order")
    _SIMPLE = re.compile(r"[biufcSUmM]\d{1,6}|O\d?")

    def __init__(self, name: str, align: object = False, copy: object = True) -> None:
        if not self._SIMPLE.fullmatch(name):
            raise CodeInState(f"the state has an array of {name!r}, and is not loaded")
        self.name, self.order = name, "|"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = state[1] if state[1] in ("<", ">") else "|"

    def values(self, raw: bytes | bytearray) -> list[Any]:
        if self.name.startswith("O"):
            raise CodeInState("the state has an array of addresses, and is not loaded")
        order = "" if self.order == "|" else self.order
        found: list[Any] = np.frombuffer(raw, dtype=order + self.name).tolist()
        return found


class _FlatArray(metaclass=_Frozen):
    """`numpy._core.numeric._frombuffer`, of arrays with one dimension."""

    def __new__(cls, raw: Any, kind: _Dtype, shape: object, order: object) -> Any:
        return kind.values(bytes(raw))


class _NdarrayName(metaclass=_Frozen):
    """Stands for the class that `_ListArray` is told to make."""


class _ListArray(list[Any], metaclass=_Frozen):
    """`numpy._core.multiarray._reconstruct`: a list, filled by what comes next in the pickle."""

    def __init__(self, kind: object, shape: object, code: object) -> None:
        super().__init__()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, _, kind, _, held = state
        self[:] = held if isinstance(held, list) else kind.values(held)


class _ScalarMaker(metaclass=_Frozen):
    """`numpy._core.multiarray.scalar`."""

    def __new__(cls, kind: _Dtype, raw: bytes) -> Any:
        return kind.values(raw)[0]


_PLAIN_TYPES = (datetime, date, time, timedelta, timezone, Decimal, bytearray, complex)
_NUMPY = ("numpy._core.multiarray", "numpy.core.multiarray")
_READABLE: Mapping[tuple[str, str], Any] = {
    **{(one.__module__, one.__name__): one for one in _PLAIN_TYPES},
    ("uuid", "UUID"): _UuidMaker,
    ("pandas._libs.tslibs.timestamps", "_unpickle_timestamp"): _TimestampMaker,
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): _NdarrayName,
    ("numpy._core.numeric", "_frombuffer"): _FlatArray,
    ("numpy.core.numeric", "_frombuffer"): _FlatArray,
    **{(module, "_reconstruct"): _ListArray for module in _NUMPY},
    **{(module, "scalar"): _ScalarMaker for module in _NUMPY},
}


def _reduced(value: Any) -> Any:
    return value.__reduce_ex__(PROTOCOL)


class _Reducers(dict[type, Callable[[Any], Any]]):
    """How instances are written; a class that is not here is not."""

    def __missing__(self, kind: type) -> NoReturn:
        raise NotPlainData(f"a {kind.__module__}.{kind.__qualname__} is not plain data")


class _Pickler(pickle.Pickler):
    dispatch_table = _Reducers(
        {
            **dict.fromkeys((*_PLAIN_TYPES, UUID), _reduced),
            Decimal: Decimal.__reduce__,
            datetime: datetime.__reduce__,
            date: date.__reduce__,
        }
    )
