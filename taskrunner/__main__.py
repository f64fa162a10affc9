"""`python -m taskrunner --runner-id UUID --address-file FILE`: started by a JobManager.

It reads one line from its standard input, the runner's secret. The process ends when its standard
input ends before that, which happens when the server ends. With `--warm MASTER` it first opens a
Spark session on that master and primes it, and creates the file `--ready-file`.
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
from taskrunner import log_rotation, logs, secret_lookup
from taskrunner.control.address import AddressFile
from taskrunner.control.client import JobManagerClient, RunnerDismissed
from taskrunner.runner import RunnerProcess
from taskrunner.spark.session import connector_jars
from taskrunner.spark.session.session import WarmSession, primed_session

log = logs.get("main")


def main() -> int:
    arguments = _parser().parse_args()
    secret_lookup.take_environment()
    logs.configure()
    log_rotation.start()
    session = WarmSession()
    if arguments.warm is not None:
        jars = connector_jars.from_argument(arguments.jars)
        session = primed_session(arguments.warm, is_wanted=_is_wanted, jars=jars)
        if arguments.ready_file is not None:
            arguments.ready_file.touch()
        log.info("warm")
    secret = _read_secret()
    if secret is None and arguments.warm is not None:
        session.close()
        return 0
    if secret is None:
        log.error("no_secret", reason="standard input ended without the line with the secret")
        return 2
    addresses = AddressFile(arguments.address_file)
    return _run(
        JobManagerClient(RunnerId(arguments.runner_id), addresses, secret, arguments.ca), session
    )


def _run(jobmanager: JobManagerClient, session: WarmSession) -> int:
    with jobmanager as client:
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


def _read_secret() -> str | None:
    """Waits for the secret of this runner; None: the server ended without giving it one."""
    secret = sys.stdin.readline().strip()
    # Processes that are started from now on must not inherit the pipe to the server.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    return secret or None


def _is_wanted() -> bool:
    """Whether the secret has already arrived: then priming would only delay the job."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="taskrunner", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runner-id", type=UUID, required=True)
    parser.add_argument("--address-file", type=Path, required=True)
    parser.add_argument("--ca", type=Path, help="PEM file of certificates that are trusted")
    parser.add_argument("--warm", metavar="MASTER", help="start and prime Spark, and wait")
    parser.add_argument("--ready-file", type=Path, help="made when a warm runner is primed")
    parser.add_argument(
        "--jars", default="[]", help="JSON: path and sha256 of each jar that a warm session has"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
