"""Who a runner is, and which attempt it may speak of.

A runner has two secrets, and Postgres has the hash of each:

* its own, which it is launched with. With it the runner registers and asks for directives;
* a token for each attempt, which comes with the directive to run that attempt. Whatever is said
  of an attempt needs its token as well: that of another attempt, of the same runner or of
  another one, is refused.

An attempt's token is derived from the runner's secret, which comes with each question for
directives. So the token is the same however often the directive has to be given, by whichever
JobManager, though none of them keeps it.

An attempt that was started by a version without such tokens has none, and its runner's secret
has to do. An attempt that has ended keeps its token: its runner has to hear that it was
superseded, and gets the same answer to what it repeats. Neither changes anything.
"""

import base64
import hashlib
import hmac
from dataclasses import dataclass, field
from uuid import UUID

from jobmanager.core.errors import WrongAttemptToken, WrongRunnerToken
from jobmanager.core.ids import AttemptNumber, JobId, RunnerId
from jobmanager.services.ports.runners import Runner
from jobmanager.services.ports.unit_of_work import UnitOfWork


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a runner shows with a call."""

    runner: RunnerId
    secret: str = field(repr=False)
    attempt_token: str | None = field(default=None, repr=False)


def token_hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def attempt_token(secret: str, job_id: JobId, attempt: AttemptNumber) -> str:
    """The token of an attempt on the runner of this secret."""
    about = f"attempt {attempt} of job {job_id.hex}"
    derived = hmac.new(secret.encode(), about.encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(derived).decode().rstrip("=")


def check_secret(shown: Credentials, known_hash: str) -> None:
    """Raises `WrongRunnerToken`."""
    if not hmac.compare_digest(known_hash, token_hash(shown.secret)):
        raise WrongRunnerToken(f"the secret is not that of runner {shown.runner}")


def check_attempt(caller: Runner, job: UUID, attempt: int) -> None:
    """A runner speaks of its own attempt, or repeats what it said of one before it. Raises
    `WrongAttemptToken`.
    """
    if caller.job_id != JobId(job) or not 1 <= attempt <= caller.attempt:
        raise WrongAttemptToken(
            f"runner {caller.id} runs attempt {caller.attempt} of job {caller.job_id.hex}, "
            f"not attempt {attempt} of job {job.hex}"
        )


def check_attempt_token(shown: Credentials, attempt: int, known_hash: str | None) -> None:
    """Raises `WrongAttemptToken`."""
    if known_hash is None and shown.attempt_token is None:
        return  # started by a version without such tokens
    if shown.attempt_token is None:
        raise WrongAttemptToken(
            f"attempt {attempt} is spoken of without its token, which came with the directive to "
            "run it: send it as Headgate-Attempt-Token"
        )
    if known_hash is None or not hmac.compare_digest(known_hash, token_hash(shown.attempt_token)):
        raise WrongAttemptToken(
            f"the token is not that of attempt {attempt}: a token is good for one attempt only"
        )


async def authenticate(uow: UnitOfWork, shown: Credentials) -> Runner:
    async with uow:
        runner = await uow.runners.get(shown.runner)
    check_secret(shown, runner.token_hash)
    return runner


async def authenticate_for(uow: UnitOfWork, shown: Credentials, job: UUID, attempt: int) -> Runner:
    """The runner that speaks of this attempt, and may."""
    async with uow:
        runner = await uow.runners.get(shown.runner)
        check_secret(shown, runner.token_hash)
        check_attempt(runner, job, attempt)
        number = AttemptNumber(attempt)
        known = await uow.attempts.token_hashes([(runner.job_id, number)])
    check_attempt_token(shown, attempt, known.get((runner.job_id, number)))
    return runner
