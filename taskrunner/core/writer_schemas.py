"""The schemas with which the records of a topic were written, by their ids in the registry.

Avro can only be read with the schema of its writer. A job begins with the schemas that its subject
had when the graph was submitted. At a record with another id the query fails; the id is noted, and
the next attempt asks the registry for it:

    noted ──asked──▶ known     the registry has it: records are read
              └────▶ absent    it has not: such records follow `on_error`; asked again next time

A registry never changes the schema of an id, so that what is known is never asked again.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from jobmanager.core.graph.connectors.schema_registry import ResolvedSchema


@dataclass(frozen=True, slots=True)
class WriterSchemas:
    known: Mapping[int, str] = field(default_factory=dict)
    """Id to schema."""
    noted: frozenset[int] = frozenset()
    """Ids that were met, and for which the registry has to be asked."""
    absent: frozenset[int] = frozenset()
    """Ids that the registry did not have."""

    @property
    def ids(self) -> frozenset[int]:
        """Every id about which the registry was asked."""
        return frozenset(self.known) | self.absent

    def with_submitted(self, resolved: ResolvedSchema) -> "WriterSchemas":
        """Also those that are part of the graph."""
        known = {**self.known, **dict(resolved.others), resolved.id: resolved.schema}
        return replace(
            self, known=known, noted=self.noted - set(known), absent=self.absent - set(known)
        )

    def met(self, number: int) -> "WriterSchemas":
        """A record has an id that is not known."""
        return self if number in self.ids else replace(self, noted=self.noted | {number})

    def asked(self, ask: Callable[[int], str | None]) -> "WriterSchemas":
        """What the registry says about ids that are noted or absent. `ask` returns None for a
        schema that is not there.
        """
        answers = {number: ask(number) for number in sorted(self.noted | self.absent)}
        found = {number: text for number, text in answers.items() if text is not None}
        return WriterSchemas({**self.known, **found}, absent=frozenset(set(answers) - set(found)))

    def to_json(self) -> str:
        return json.dumps(
            {
                "known": {str(number): text for number, text in self.known.items()},
                "noted": sorted(self.noted),
                "absent": sorted(self.absent),
            }
        )


def from_json(text: str) -> WriterSchemas:
    found = json.loads(text)
    return WriterSchemas(
        {int(number): schema for number, schema in found["known"].items()},
        frozenset(found["noted"]),
        frozenset(found["absent"]),
    )
