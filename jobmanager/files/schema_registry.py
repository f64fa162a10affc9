"""Asks a schema registry, by the interface of Confluent's registry, which others have as well."""

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from jobmanager.core.graph.connectors.schema_registry import ResolvedSchema, SchemaType

_TIMEOUT = httpx.Timeout(20.0, connect=10.0)
_ACCEPTED = "application/vnd.schemaregistry.v1+json, application/json"
_SENT = "application/vnd.schemaregistry.v1+json"
_MOST_OTHERS = 100
"""Of how many versions of a subject the schemas are kept. Older ones are asked for when a record
has them.
"""


class RegistryRefused(Exception):
    """The registry could not be asked, or said no; the message says what and why."""


class SchemaMissing(RegistryRefused):
    """The registry has no such subject, version or id."""


class SchemaUnusable(RegistryRefused):
    """The registry has the schema, and it is none that Headgate reads."""


@dataclass(frozen=True, slots=True)
class SchemaRegistry:
    url: str
    user: str | None = None
    password: str | None = None

    def resolve(self, subject: str, version: int | None) -> ResolvedSchema:
        """A version of a subject, None: the newest, with the other schemas of the subject. Raises
        `RegistryRefused`.
        """
        with self._client() as http:
            found = self._version(http, subject, "latest" if version is None else version)
            return self._with_others(http, subject, found)

    def resolve_id(self, subject: str, number: int) -> ResolvedSchema:
        """The schema with an id, with those of the subject. Raises `RegistryRefused`."""
        with self._client() as http:
            found = _parsed(number, None, self._get(http, f"/schemas/ids/{number}"))
            return self._with_others(http, subject, found)

    def schema(self, number: int) -> ResolvedSchema:
        """The schema with an id. Raises `RegistryRefused`."""
        with self._client() as http:
            return _parsed(number, None, self._get(http, f"/schemas/ids/{number}"))

    def look_up(self, subject: str, kind: SchemaType, schema: str) -> ResolvedSchema:
        """The version of a subject that has this schema. Raises `SchemaMissing` if none has."""
        with self._client() as http:
            return self._looked_up(http, subject, kind, schema)

    def register(self, subject: str, kind: SchemaType, schema: str) -> ResolvedSchema:
        """Adds a schema to a subject, unless the subject has it. Raises `RegistryRefused`, also if
        the schema is not compatible with the subject's earlier schemas.
        """
        with self._client() as http:
            try:
                return self._looked_up(http, subject, kind, schema)
            except SchemaMissing:
                path = f"/subjects/{quote(subject, safe='')}/versions"
                self._ask(http, "POST", path, _body(kind, schema))
                return self._looked_up(http, subject, kind, schema)

    def _client(self) -> httpx.Client:
        login = (self.user, self.password or "") if self.user is not None else None
        return httpx.Client(timeout=_TIMEOUT, auth=login, headers={"Accept": _ACCEPTED})

    def _looked_up(
        self, http: httpx.Client, subject: str, kind: SchemaType, schema: str
    ) -> ResolvedSchema:
        path = f"/subjects/{quote(subject, safe='')}"
        answer = self._ask(http, "POST", path, _body(kind, schema))
        found = self._version(http, subject, _number(answer, "version"))
        return self._with_others(http, subject, found)

    def _version(self, http: httpx.Client, subject: str, version: int | str) -> ResolvedSchema:
        answer = self._get(http, f"/subjects/{quote(subject, safe='')}/versions/{version}")
        return _parsed(_number(answer, "id"), _number(answer, "version"), answer)

    def _with_others(
        self, http: httpx.Client, subject: str, found: ResolvedSchema
    ) -> ResolvedSchema:
        """Also says which version a schema is that was asked for by its id."""
        listed = self._ask(http, "GET", f"/subjects/{quote(subject, safe='')}/versions")
        versions = [one for one in listed if isinstance(one, int)][-_MOST_OTHERS:]
        number = found.version
        others: dict[int, str] = {}
        for version in versions:
            if version == found.version:
                continue
            try:
                one = self._version(http, subject, version)
            except (SchemaMissing, SchemaUnusable):
                continue  # deleted meanwhile, or of a kind that no record of the format has
            if one.id == found.id:
                number = one.version if number is None else number
            elif one.type is found.type:
                others[one.id] = one.schema
        kept = tuple(sorted(others.items()))
        return ResolvedSchema(found.id, number, found.type, found.schema, kept)

    def _get(self, http: httpx.Client, path: str) -> Any:
        return self._ask(http, "GET", path)

    def _ask(self, http: httpx.Client, method: str, path: str, body: Any = None) -> Any:
        sent = {"json": body, "headers": {"Content-Type": _SENT}} if body is not None else {}
        try:
            answer = http.request(method, self.url + path, **sent)
        except httpx.HTTPError as error:
            raise RegistryRefused(
                f"the registry {self.url} cannot be reached: {type(error).__name__}: {error}"
            ) from error
        try:
            told = answer.json() if answer.content else None
        except ValueError as error:
            raise RegistryRefused(
                f"{self.url}{path} did not answer as a schema registry does (status "
                f"{answer.status_code}): is the address that of its Confluent interface?"
            ) from error
        if answer.is_success:
            return told
        raise self._refusal(path, answer.status_code, told)

    def _refusal(self, path: str, status: int, told: Any) -> RegistryRefused:
        message = told.get("message") if isinstance(told, dict) else None
        why = f"{message or 'no reason given'} (status {status}, {path})"
        if status in (401, 403):
            return RegistryRefused(f"the registry {self.url} does not accept the login: {why}")
        if status == httpx.codes.NOT_FOUND:
            return SchemaMissing(f"the registry {self.url} has no such schema: {why}")
        return RegistryRefused(f"the registry {self.url} refused: {why}")


def _body(kind: SchemaType, schema: str) -> dict[str, Any]:
    # registries of the first years know no other type than Avro, and no field for it
    return {"schema": schema, **({} if kind is SchemaType.AVRO else {"schemaType": kind.value})}


def _parsed(number: int, version: int | None, answer: Any) -> ResolvedSchema:
    given = answer if isinstance(answer, dict) else {}
    if given.get("references"):
        raise SchemaUnusable(
            f"schema {number} refers to other schemas, which Headgate does not read: register a "
            "schema that has them inside"
        )
    try:
        kind = SchemaType(given.get("schemaType") or "AVRO")
        text = json.dumps(json.loads(given["schema"]))
    except (KeyError, TypeError, ValueError) as error:
        raise SchemaUnusable(
            f"schema {number} is neither Avro nor JSON Schema ({given.get('schemaType')})"
        ) from error
    return ResolvedSchema(number, version, kind, text)


def _number(answer: Any, name: str) -> int:
    found = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(found, int):
        raise RegistryRefused(f"the registry answered without {name}: {answer!r}")
    return found
