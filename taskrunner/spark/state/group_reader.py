"""Reads the state of Python vertices, which Spark keeps by key group, one binary value each.

Spark does not know the keys: a key is found by decoding the value of its group.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from jobmanager.core.graph.vertex import Vertex
from taskrunner.core.state_key import InvalidKey
from taskrunner.core.state_names import NamedState
from taskrunner.core.state_view import Column, StateView
from taskrunner.keyed import readable_state
from taskrunner.keyed.readable_state import KeyContents
from taskrunner.spark.session.hadoop_path import hadoop_path
from taskrunner.spark.state.state_reader import FoundRow, GroupCount, Page

_GROUPS_AT_ONCE = 64


class GroupReader:
    """Reads the state of one vertex at one batch. It has the shape of a `StateReader`."""

    def __init__(
        self,
        spark: SparkSession,
        directory: Path,
        batch: int,
        state: NamedState,
        vertex: Vertex,
        partitions: int,
    ) -> None:
        self._spark = spark
        self._directory = directory
        self._batch = batch
        self._state = state
        self._key: tuple[str, ...] = getattr(vertex, "key", ())
        self._partitions = partitions

    @property
    def view(self) -> StateView:
        """The columns of the key; the value is an object with the state names of a key."""
        key = tuple(Column(name, "VALUE", name, "") for name in self._key)
        return StateView(key, (), None, None)

    @property
    def schemas(self) -> tuple[str, str]:
        key, value = (self._rows.schema[name].dataType for name in ("key", "value"))
        return key.simpleString(), value.simpleString()

    def page(self, key: str | None, partition: int, skip: int, limit: int) -> Page:
        """The next keys in the order of partition and group. Raises `InvalidKey`."""
        wanted = None if key is None else self._parsed(key)
        found: list[FoundRow] = []
        for subtask in range(partition, self._partitions):
            seen = skip if subtask == partition else 0
            matching = (one for one in self._keys(subtask) if self._is(one[1], wanted))
            for group, contents in islice(matching, seen, None):
                if len(found) == limit:
                    return Page(found, (subtask, seen))
                found.append(self._row(subtask, group, contents))
                seen += 1
        return Page(found, None)

    def count_groups(self) -> list[GroupCount]:
        """How many keys and bytes each key group has; empty key groups are left out."""
        return [
            GroupCount(group, subtask, len(readable_state.contents_of(value)), len(value))
            for subtask in range(self._partitions)
            for group, value in self._values(subtask)
        ]

    def _keys(self, subtask: int) -> Iterator[tuple[int, KeyContents]]:
        for group, value in self._values(subtask):
            for contents in readable_state.contents_of(value):
                yield group, contents

    def _values(self, subtask: int) -> Iterator[tuple[int, bytes]]:
        """The values of the groups, some at a time: all of them may not fit into memory."""
        at = 0
        while chunk := self._chunk(subtask, at):
            yield from chunk
            at += len(chunk)

    def _chunk(self, subtask: int, at: int) -> list[tuple[int, bytes]]:
        def take(rows: Iterable[Any]) -> list[Any]:  # runs in a worker, without this package
            return list(islice(rows, at, at + _GROUPS_AT_ONCE))

        rows = self._sorted.rdd
        found = self._spark.sparkContext.runJob(rows, take, [subtask])
        return [(int(row["group"]), bytes(row["value"])) for row in found]

    def _row(self, subtask: int, group: int, contents: KeyContents) -> FoundRow:
        key = {
            name: readable_state.as_json(one)
            for name, one in zip(self._key, contents.key, strict=False)
        }
        return FoundRow(key, contents.values, group if self._key else None, subtask)

    def _is(self, contents: KeyContents, wanted: Mapping[str, str | None] | None) -> bool:
        if wanted is None:
            return True
        texts = dict(zip(self._key, map(readable_state.as_text, contents.key), strict=False))
        return all(texts.get(name) == text for name, text in wanted.items())

    def _parsed(self, text: str) -> Mapping[str, str | None]:
        if not self._key:
            raise InvalidKey("this state has no key: read all of it, it is one row")
        document = _object(text)
        if document is None and len(self._key) == 1:
            return {self._key[0]: text}
        unknown = [name for name in document or {} if name not in self._key]
        if not document or unknown:
            example = json.dumps(dict.fromkeys(self._key, "…"), ensure_ascii=False)
            raise InvalidKey(
                f"{text!r} is no key: the key columns are {', '.join(self._key)}; give a JSON "
                f"object such as {example}"
            )
        return {name: readable_state.as_text(value) for name, value in document.items()}

    @cached_property
    def _sorted(self) -> DataFrame:
        # the names of our own group column and of Spark's wrapping of the value, by position
        key, value = (self._rows.schema[name].dataType for name in ("key", "value"))
        group, wrapped = _first(key), _first(value)
        held = value[wrapped].dataType  # type: ignore[index]
        inside = f"value.`{wrapped}`"
        if hasattr(held, "fields"):
            inside += f".`{_first(held)}`"
        return self._rows.select(
            sql.col(f"key.`{group}`").alias("group"), sql.expr(inside).alias("value")
        ).sortWithinPartitions("group")

    @cached_property
    def _rows(self) -> DataFrame:
        reader = self._spark.read.format("statestore").options(**self._state.options)
        return reader.option("batchId", self._batch).load(hadoop_path(self._directory))


def _first(kind: Any) -> str:
    names: Sequence[str] = kind.names
    return names[0]


def _object(text: str) -> dict[str, Any] | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        document = json.loads(text)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
