"""The errors that are raised on purpose.

    DomainError
      NotFound
        JobNotFound, CheckpointNotFound, SavepointNotFound, OperationNotFound,
        RunnerNotFound, LogNotFound, TaskNotFound, StateNotFound, SinkNotFound,
        ArtifactNotFound, TokenNotFound, JarNotFound, DataSetNotFound, WebhookNotFound
      Conflict
        JobNotRunning, JobHasEnded, NothingToVerify, IdempotencyKeyReused, SavepointInUse,
        StopUnderWay, SinkInUse, NothingToChange, NoStateYet, ArtifactInUse, ArtifactNamed,
        TokenNameTaken, JobIdTaken, WebhookNameTaken
      Rejected
        InvalidJobGraph, UnsupportedRequest, UnusableRestorePoint (StateDoesNotFit), UpgradeRefused,
        InvalidStateKey, UnreadableState, UnreadableOutput, NotAdoptable, InvalidArtifact,
        ArtifactTooLarge, ArtifactStoreFull,
        UnusableScript, PathNotAllowed, InvalidToken, InvalidLabels, InvalidWebhook
      Malformed
        MalformedRequest, BodyTooLarge, BodyTooSlow, HeadTooLarge, HeadTooSlow,
        UnsupportedContentType
      Forbidden
        WrongRunnerToken (WrongAttemptToken), TokenNeeded, TokenRefused
      RoleTooSmall
      FromAnotherSite
        UnknownHost, CrossSiteRequest
      Unavailable
        StorageUnavailable (StorageBusy), StoreUnavailable, InspectorUnavailable, NotLeading,
        RunnerNotAnswering, TooBusy, TooManyStreams, TooManyConnections

No HTTP in here: `jobmanager.api.problems` gives each family its status code.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


class DomainError(Exception):
    """Base class of every error raised on purpose."""

    title: ClassVar[str]


class NotFound(DomainError):
    """What the request names does not exist."""


class JobNotFound(NotFound):
    title = "No such job"


class CheckpointNotFound(NotFound):
    title = "No such checkpoint"


class SavepointNotFound(NotFound):
    title = "No such savepoint"


class OperationNotFound(NotFound):
    title = "No such operation"


class RunnerNotFound(NotFound):
    title = "No such runner"


class LogNotFound(NotFound):
    title = "No log yet"


class TaskNotFound(NotFound):
    title = "No such task"


class StateNotFound(NotFound):
    title = "No such state"


class SinkNotFound(NotFound):
    title = "No such sink"


class ArtifactNotFound(NotFound):
    title = "No such artifact"


class JarNotFound(NotFound):
    title = "No such jar"


class DataSetNotFound(NotFound):
    title = "No such data set"


class TokenNotFound(NotFound):
    title = "No such token"


class WebhookNotFound(NotFound):
    title = "No such webhook"


class Conflict(DomainError):
    """The request is well formed, but the present state forbids it."""


class JobNotRunning(Conflict):
    title = "The job is not running"


class JobHasEnded(Conflict):
    title = "The job has ended"


class StopUnderWay(Conflict):
    title = "The job is being stopped"


class NothingToChange(Conflict):
    title = "The job already runs with this graph and parallelism"


class SavepointInUse(Conflict):
    title = "The savepoint is in use"


class ArtifactInUse(Conflict):
    title = "The artifact is in use"


class ArtifactNamed(Conflict):
    title = "The artifact exists under another name"


class SinkInUse(Conflict):
    title = "The sink is in use"


class NothingToVerify(Conflict):
    title = "The checkpoint has no files to verify"


class NoStateYet(Conflict):
    title = "There is no state to read"


class IdempotencyKeyReused(Conflict):
    title = "The idempotency key was used for another request"


class TokenNameTaken(Conflict):
    title = "There is a token of that name"


class JobIdTaken(Conflict):
    title = "There is a job of that id"


class WebhookNameTaken(Conflict):
    title = "There is a webhook of that name"


class Rejected(DomainError):
    """The request can never succeed as written."""


class UnusableRestorePoint(Rejected):
    title = "The job cannot be restored from this"


class DrainedRestorePoint(UnusableRestorePoint):
    title = "The savepoint is drained"


class UpgradeRefused(Rejected):
    title = "The job cannot be upgraded to this graph"


class InvalidStateKey(Rejected):
    title = "Not a key of this state"


class UnreadableState(Rejected):
    title = "The state cannot be read"


class UnreadableOutput(Rejected):
    title = "The rows of the sink cannot be read"


class NotAdoptable(Rejected):
    title = "The checkpoint cannot be adopted"


class InvalidArtifact(Rejected):
    title = "Jobs cannot use this artifact"


class ArtifactTooLarge(Rejected):
    title = "The artifact is too large"


class ArtifactStoreFull(Rejected):
    title = "The server keeps no more artifacts"


class UnusableScript(Rejected):
    title = "The script cannot run as a job"


class PathNotAllowed(Rejected):
    title = "This server does not allow the path"


class InvalidWebhook(Rejected):
    title = "The webhook cannot be created"


class InvalidToken(Rejected):
    title = "There cannot be such a token"


class InvalidLabels(Rejected):
    title = "A savepoint cannot have these labels"


class UnsupportedRequest(Rejected):
    title = "This request is not supported"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a job graph."""

    vertex: str | None
    """None: the fault is in the graph itself."""
    field: str
    message: str

    def __str__(self) -> str:
        where = f"{self.vertex}.{self.field}" if self.vertex else self.field
        return f"{where}: {self.message}"


class InvalidJobGraph(Rejected):
    title = "The job graph has faults"

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        count = f"{len(faults)} fault{'s' if len(faults) > 1 else ''}"
        super().__init__(f"{count}: " + "; ".join(str(fault) for fault in faults))


class StateDoesNotFit(UnusableRestorePoint):
    title = "The saved state does not fit the job graph"

    def __init__(self, name: str, faults: Sequence[Fault]) -> None:
        """`name` is the name of the savepoint or checkpoint."""
        self.faults = tuple(faults)
        told = "; ".join(fault.message for fault in faults)
        super().__init__(f"the job cannot start from {name}: {told}")


class Malformed(DomainError):
    """The request cannot be understood."""


class MalformedRequest(Malformed):
    title = "The request cannot be understood"


class BodyTooLarge(Malformed):
    title = "The request body is too large"


class BodyTooSlow(Malformed):
    title = "The request body arrived too slowly"


class HeadTooLarge(Malformed):
    title = "The head of the request is too large"


class HeadTooSlow(Malformed):
    title = "The head of the request arrived too slowly"


class UnsupportedContentType(Malformed):
    title = "The content type is not accepted"


class Forbidden(DomainError):
    """The caller is not who it says it is."""


class WrongRunnerToken(Forbidden):
    title = "Wrong runner token"


class WrongAttemptToken(WrongRunnerToken):
    title = "Wrong token of the attempt"


class TokenNeeded(Forbidden):
    title = "A token is needed"


class TokenRefused(Forbidden):
    title = "The token is not accepted"


class RoleTooSmall(DomainError):
    """The caller is known, and may not do this."""

    title = "The role is too small for this"


class FromAnotherSite(DomainError):
    """The request may have been sent by a web page of another site."""


class UnknownHost(FromAnotherSite):
    title = "The Host header does not name this server"


class CrossSiteRequest(FromAnotherSite):
    title = "Web pages of other sites may not do this"


class Unavailable(DomainError):
    """Something needed cannot be reached at the moment; the same request may succeed later."""


class StorageUnavailable(Unavailable):
    title = "Storage cannot be read"


class StorageBusy(StorageUnavailable):
    title = "Another process uses these files at the moment"


class StoreUnavailable(Unavailable):
    title = "The database cannot be reached"


class InspectorUnavailable(Unavailable):
    title = "State cannot be read at the moment"


class NotLeading(Unavailable):
    title = "No JobManager leads at the moment"


class RunnerNotAnswering(Unavailable):
    title = "The runner has not answered"


class TooBusy(Unavailable):
    title = "Too many requests at once"


class TooManyStreams(Unavailable):
    title = "Too many event streams are open"


class TooManyConnections(Unavailable):
    title = "Too many connections are open"
