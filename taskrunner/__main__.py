"""`python -m taskrunner --runner-id UUID --address-file FILE`: started by a JobManager.

With `--warm MASTER` it first opens a Spark session on that master and primes it, creates
the file `--ready-file`, and waits on its standard input for one line, the runner's token.
The process ends when its standard input ends, which happens when the server ends.
"""

import argparse
import os
import select
import signal
import sys
from pathlib import Path
from types import FrameType
from uuid import UUID

from jobmanager.core.ids import RunnerId
from taskrunner import log_rotation, logs
from taskrunner.control.address import AddressFile
from taskrunner.control.client import JobManagerClient, RunnerDismissed
from taskrunner.runner import RunnerProcess
from taskrunner.spark.session.session import WarmSession, primed_session

log = logs.get("main")


def main() -> int:
    arguments = _parser().parse_args()
    logs.configure()
    log_rotation.start()
    session = WarmSession()
    token = os.environ.get(arguments.token_env)
    if arguments.warm is not None:
        session = primed_session(arguments.warm, is_wanted=_is_wanted)
        token = _await_token(arguments.ready_file)
        if token is None:
            session.close()
            return 0
    if token is None:
        log.error("no_token", reason=f"the environment variable {arguments.token_env} is not set")
        return 2
    return _run(RunnerId(arguments.runner_id), AddressFile(arguments.address_file), token, session)


def _run(runner_id: RunnerId, addresses: AddressFile, token: str, session: WarmSession) -> int:
    with JobManagerClient(runner_id, addresses, token) as client:
        runner = RunnerProcess(client, session)

        def terminate(number: int, frame: FrameType | None) -> None:
            runner.terminate()

        signal.signal(signal.SIGTERM, terminate)
        try:
            runner.run()
        except RunnerDismissed as error:
            log.error("dismissed", reason=str(error))
            return 1
    return 0


def _await_token(ready_file: Path | None) -> str | None:
    """Waits for the token of this runner; None: the server ended without giving it one."""
    if ready_file is not None:
        ready_file.touch()
    log.info("warm")
    return sys.stdin.readline().strip() or None


def _is_wanted() -> bool:
    """Whether the token has already arrived: then priming would only delay the job."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="taskrunner", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runner-id", type=UUID, required=True)
    parser.add_argument("--address-file", type=Path, required=True)
    parser.add_argument(
        "--token-env",
        default="HEADGATE_RUNNER_TOKEN",
        help="the environment variable that holds the runner's token",
    )
    parser.add_argument("--warm", metavar="MASTER", help="start and prime Spark, and wait")
    parser.add_argument("--ready-file", type=Path, help="made when a warm runner is primed")
    return parser


if __name__ == "__main__":
    sys.exit(main())
