"""`python -m taskrunner --runner-id UUID --address-file FILE`: started by a JobManager."""

import argparse
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from uuid import UUID

from jobmanager.core.ids import RunnerId
from taskrunner import logs
from taskrunner.control.address import AddressFile
from taskrunner.control.client import JobManagerClient, RunnerDismissed
from taskrunner.runner import Runner

log = logs.get("main")


def main() -> int:
    arguments = _parser().parse_args()
    logs.configure()
    token = os.environ.get(arguments.token_env)
    if token is None:
        log.error("no_token", reason=f"the environment variable {arguments.token_env} is not set")
        return 2
    addresses = AddressFile(arguments.address_file)
    with JobManagerClient(RunnerId(arguments.runner_id), addresses, token) as client:
        runner = Runner(client)

        def terminate(number: int, frame: FrameType | None) -> None:
            runner.terminate()

        signal.signal(signal.SIGTERM, terminate)
        try:
            runner.run()
        except RunnerDismissed as error:
            log.error("dismissed", reason=str(error))
            return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="taskrunner", description=__doc__)
    parser.add_argument("--runner-id", type=UUID, required=True)
    parser.add_argument("--address-file", type=Path, required=True)
    parser.add_argument(
        "--token-env",
        default="HEADGATE_RUNNER_TOKEN",
        help="the environment variable that holds the runner's token",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
