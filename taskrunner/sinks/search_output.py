"""Documents of an index of Elasticsearch or OpenSearch, written by tasks with versions.

A row is the document whose `_id` is the key of the row. Its version is given by us
(`version_type: external_gte`), so the server refuses a row whose document has a greater version.
The record of who may write is a document too, in the index `headgate-sinks`.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from urllib.parse import quote

from taskrunner.core.bulk_answers import judge, mapping_faults
from taskrunner.core.store_failures import RowsRefused, StoreRefused, StoreUnreachable
from taskrunner.core.writer_record import WriterRecord
from taskrunner.sinks.search_clients import SearchAccess, SearchClient
from taskrunner.sinks.versioned_output import FoundRecord

RECORDS = "headgate-sinks"
"""The index with the records of all sinks."""
_LONGEST_KEY = 512
_TRIES = 8
_FIRST_PAUSE_SECONDS = 0.1
_NOT_NOW = (429, 502, 503, 504)

Document = tuple[str, str | None]
"""A key with its document as JSON; None: no such document."""


@dataclass(frozen=True, slots=True)
class SearchStore:
    """One index."""

    access: SearchAccess
    index: str

    @property
    def name(self) -> str:
        return f"index {self.index} of {self.access.name}"

    @property
    def record_name(self) -> str:
        return f"the document {self.index} of the index {RECORDS} of {self.access.name}"

    @contextmanager
    def connected(self) -> Iterator["SearchConnection"]:
        with self.access.client() as client:
            yield SearchConnection(self, client)


@dataclass(frozen=True, slots=True)
class SearchConnection:
    """A connection to the server of an index."""

    store: SearchStore
    client: SearchClient

    def faults(self, columns: Sequence[str]) -> list[str]:
        """What is wrong with the index for rows of these columns."""
        index = self.store.index
        answer = self.client.ask("GET", f"/{quote(index, safe='')}")
        if answer.status == 404:
            absent = (
                f"{self.store.access.name} has no index {index!r}: create the index with the "
                f"mapping that you want (PUT /{index}), and start the job again"
            )
            return [absent]
        if answer.status != 200:
            raise StoreRefused(f"{self.store.name} cannot be looked at: {answer.reason}")
        if len(answer.body) != 1:
            several = (
                f"{index!r} means several indexes ({', '.join(sorted(answer.body))}), and a key "
                "may then be in two of them: name one index, or an alias of one index"
            )
            return [several]
        [described] = answer.body.values()
        return mapping_faults(described.get("mappings", {}), columns)

    def make_records(self) -> None:
        """Creates the index with the records, unless it is there."""
        if self.client.ask("GET", f"/{RECORDS}").status == 200:
            return
        body = {"mappings": {"dynamic": False}}
        answer = self.client.ask("PUT", f"/{RECORDS}", json.dumps(body))
        if answer.status != 200 and "already_exists" not in answer.reason:
            raise StoreRefused(
                f"{self.store.access.name} does not create the index {RECORDS}: {answer.reason}"
            )

    def read_record(self) -> FoundRecord | None:
        answer = self.client.ask("GET", self._record_path)
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise StoreRefused(f"{self.store.record_name} cannot be read: {answer.reason}")
        revision = (answer.body["_seq_no"], answer.body["_primary_term"])
        return FoundRecord(WriterRecord(**answer.body["_source"]), revision)

    def replace_record(self, before: FoundRecord | None, record: WriterRecord) -> bool:
        body = json.dumps(asdict(record))
        if before is None:
            answer = self.client.ask("PUT", self._record_path, body, op_type="create")
        else:
            number, term = before.revision
            answer = self.client.ask(
                "PUT", self._record_path, body, if_seq_no=number, if_primary_term=term
            )
        if answer.status == 409:
            return False
        if answer.status not in (200, 201):
            raise StoreRefused(f"{self.store.record_name} cannot be written: {answer.reason}")
        return True

    def write(self, rows: Sequence[Document], version: int) -> None:
        for key, _ in rows:
            if not key or len(key.encode()) > _LONGEST_KEY:
                raise RowsRefused(
                    f"{self.store.name}: the key {key[:60]!r} has {len(key.encode())} bytes, and a "
                    f"document's _id has 1 to {_LONGEST_KEY}: choose another key"
                )
        left, why = list(rows), ""
        for number in range(_TRIES):
            time.sleep(_FIRST_PAUSE_SECONDS * 2**number if number else 0)
            why = self._send(left, version)
            if not left:
                return
        raise StoreUnreachable(
            f"{self.store.name} did not take {len(left)} rows in {_TRIES} tries ({why}): the "
            "server has too much to do, or a shard of the index is not there. The batch is written "
            "again after a restart of the job"
        )

    def _send(self, rows: list[Document], version: int) -> str:
        """Sends rows, and leaves in the list what has to be sent again; returns why."""
        lines = []
        for key, document in rows:
            named = {"_id": key, "version": version, "version_type": "external_gte"}
            lines.append(json.dumps({"delete" if document is None else "index": named}))
            if document is not None:
                lines.append(document)
        path = f"/{quote(self.store.index, safe='')}/_bulk"
        answer = self.client.ask("POST", path, "\n".join([*lines, ""]))
        if answer.status in _NOT_NOW:
            return answer.reason or str(answer.status)
        if answer.status != 200:
            raise StoreRefused(f"{self.store.name} refuses a request: {answer.reason}")
        outcome = judge(self.store.name, [key for key, _ in rows], answer.body["items"])
        if outcome.failure is not None:
            raise outcome.failure
        rows[:] = [rows[position] for position in outcome.again]
        return outcome.why_again

    @property
    def _record_path(self) -> str:
        return f"/{RECORDS}/_doc/{quote(self.store.index, safe='')}"
