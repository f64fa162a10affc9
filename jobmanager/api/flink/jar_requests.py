"""What a client asks for when it wants the plan of a jar, or to run it: in the body, or as query
parameters. What the body says counts.
"""

from typing import Annotated

from fastapi import Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from jobmanager.core.errors import MalformedRequest
from jobmanager.core.flink_configuration import whole
from jobmanager.core.jar import arguments_in

_MOST_PARALLELISM = 32_768


class JarRequestBody(BaseModel):
    model_config = ConfigDict(extra="ignore")  # as Flink does

    entryClass: str | None = None  # noqa: N815 - Flink's name
    programArgs: str | None = None  # noqa: N815 - Flink's name, until 1.20
    programArgsList: list[str] | None = Field(None, max_length=1000)  # noqa: N815 - Flink's name
    parallelism: int | None = Field(None, ge=1, le=_MOST_PARALLELISM)
    jobId: str | None = Field(None, pattern="^[0-9a-f]{32}$")  # noqa: N815 - Flink's name
    flinkConfiguration: dict[str, str] | None = None  # noqa: N815 - Flink's name


class JarRunRequestBody(JarRequestBody):
    allowNonRestoredState: bool | None = None  # noqa: N815 - Flink's name
    savepointPath: str | None = None  # noqa: N815 - Flink's name
    restoreMode: str | None = None  # noqa: N815 - Flink's name, until 1.20
    claimMode: str | None = None  # noqa: N815 - Flink's name


class JarQuery:
    """The query parameters."""

    def __init__(
        self,
        program_arg: Annotated[
            str | None, Query(alias="programArg", description="Arguments, separated by commas.")
        ] = None,
        program_args: Annotated[
            str | None, Query(alias="program-args", description="Arguments, separated by spaces.")
        ] = None,
        entry_class: Annotated[
            str | None,
            Query(alias="entry-class", description="Not used: a file has one program."),
        ] = None,
        parallelism: Annotated[int | None, Query(ge=1, le=_MOST_PARALLELISM)] = None,
        allow: Annotated[bool | None, Query(alias="allowNonRestoredState")] = None,
        savepoint: Annotated[str | None, Query(alias="savepointPath")] = None,
    ) -> None:
        self.program_arg = program_arg
        self.program_args = program_args
        self.entry_class = entry_class
        self.parallelism = parallelism
        self.allow = allow
        self.savepoint = savepoint


AskedInQuery = Annotated[JarQuery, Depends(JarQuery)]


class JarCall:
    """What is asked for, from the body and the query together."""

    def __init__(self, body: JarRequestBody | None, query: JarQuery) -> None:
        said = body or JarRequestBody()
        self.configuration = dict(said.flinkConfiguration or {})
        self.arguments = _arguments(said, query)
        self.parallelism = said.parallelism or query.parallelism or _parallelism(self.configuration)
        self.job_id = said.jobId
        run = said if isinstance(said, JarRunRequestBody) else JarRunRequestBody()
        recovery = "execution.state-recovery"
        self.savepoint = (
            run.savepointPath or query.savepoint or self.configuration.get(f"{recovery}.path")
        )
        unclaimed = self.configuration.get(f"{recovery}.ignore-unclaimed-state", "")
        allowed = run.allowNonRestoredState if query.allow is None else query.allow
        if run.allowNonRestoredState is not None:
            allowed = run.allowNonRestoredState
        self.allow_non_restored_state = unclaimed.lower() == "true" if allowed is None else allowed
        self.claims = _claims(run.claimMode or run.restoreMode)


def _arguments(said: JarRequestBody, query: JarQuery) -> list[str]:
    if said.programArgsList is not None:
        return list(said.programArgsList)
    if said.programArgs is not None:
        return arguments_in(said.programArgs)
    if query.program_arg:
        return query.program_arg.split(",")
    return arguments_in(query.program_args or "")


def _parallelism(configuration: dict[str, str]) -> int | None:
    found = whole(configuration, "parallelism.default")
    if found is not None and not 1 <= found <= _MOST_PARALLELISM:
        raise MalformedRequest(f"parallelism.default is {found}: 1 to {_MOST_PARALLELISM}")
    return found


def _claims(mode: str | None) -> bool:
    match (mode or "NO_CLAIM").upper():
        case "CLAIM":
            return True
        case "NO_CLAIM" | "LEGACY":
            return False
        case _:
            raise MalformedRequest(f"claimMode is {mode!r}: CLAIM, NO_CLAIM or LEGACY")
