"""`python -m taskrunner --runner-id UUID --address-file FILE`: started by a JobManager.

It reads one line from its standard input, the runner's secret. The process ends when its standard
input ends before that, which happens when the server ends. With `--warm MASTER` it first opens a
Spark session on that master and primes it, and creates the file `--ready-file`. With `--reuse N` it
serves up to N runners, one after the other. With `--shared` it gets no secret at first, and serves
the runners that it is given at the same time; `--runner-id` is then the id of the process.

Most of the runner's own modules are imported while Spark's JVM starts.
"""

import argparse
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING
from uuid import UUID

from jobmanager.core.ids import RunnerId
from taskrunner import cpu_priority, log_rotation, logs, secret_lookup
from taskrunner.control.server_channel import ServerChannel
from taskrunner.runner_log import RunnerLog
from taskrunner.spark.session import connector_jars
from taskrunner.spark.session.session import (
    WarmSession,
    prime_session,
    spare_session,
)

if TYPE_CHECKING:
    from taskrunner.control.client import JobManagerClient
    from taskrunner.reuse import ReturningProcess
    from taskrunner.runner import RunnerProcess

_REST = ("taskrunner.runner", "taskrunner.reuse")
log = logs.get("main")


def main() -> int:
    arguments = _parser().parse_args()
    secret_lookup.take_environment()
    logs.configure()
    channel = ServerChannel()
    if arguments.shared:
        return _serve_many(arguments, channel)
    runner_log = RunnerLog(Path.cwd())
    log_rotation.start(runner_log)
    session = WarmSession()
    if arguments.warm is not None:
        session = _prepared(arguments, channel)
    secret = channel.read_secret()
    if secret is None and arguments.warm is not None:
        session.close()
        return 0
    if secret is None:
        log.error("no_secret", reason="standard input ended without the line with the secret")
        return 2
    from taskrunner.reuse import ReturningProcess

    process = ReturningProcess(channel, session, runner_log, arguments.reuse)
    return _serve(arguments, session, process, secret)


def _serve_many(arguments: argparse.Namespace, channel: ServerChannel) -> int:
    from taskrunner.shared_process import SharedProcess

    process = SharedProcess(
        arguments.runner_id, channel, arguments.address_file, arguments.memory, arguments.ca
    )
    return process.serve(Path.cwd())


def _prepared(arguments: argparse.Namespace, channel: ServerChannel) -> WarmSession:
    """A primed session. Nobody waits for it yet, until the secret arrives."""
    if arguments.low_priority:
        cpu_priority.lower_until(channel.await_words)
    jars = connector_jars.from_argument(arguments.jars)
    with ThreadPoolExecutor(1, thread_name_prefix="session") as thread:
        opening = thread.submit(spare_session, arguments.warm, jars)
        for module in _REST:
            import_module(module)
        session = opening.result()
    prime_session(session, is_wanted=channel.has_words)
    if arguments.ready_file is not None:
        arguments.ready_file.touch()
    log.info("warm")
    return session


def _serve(
    arguments: argparse.Namespace, session: WarmSession, process: "ReturningProcess", secret: str
) -> int:
    """Serves one runner after the other; returns the exit code of the process."""
    from taskrunner.control.address import AddressFile
    from taskrunner.control.client import JobManagerClient
    from taskrunner.runner import RunnerProcess

    runner_id = RunnerId(arguments.runner_id)
    addresses = AddressFile(arguments.address_file)
    while True:
        client = JobManagerClient(runner_id, addresses, secret, arguments.ca)
        runner = RunnerProcess(client, session, announce=partial(process.announce, runner_id))
        code = _run(client, runner)
        if not runner.is_returning:
            return code
        order = process.next_runner(runner_id)
        if order is None:
            session.close()
            return 0
        runner_id, secret = RunnerId(order.runner), order.secret


def _run(jobmanager: "JobManagerClient", runner: "RunnerProcess") -> int:
    from taskrunner.control.client import RunnerDismissed

    with jobmanager:

        def terminate(number: int, frame: FrameType | None) -> None:
            runner.terminate()

        signal.signal(signal.SIGTERM, terminate)
        try:
            runner.run()
        except RunnerDismissed as error:
            log.error("dismissed", reason=str(error))
            return 1
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="taskrunner", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runner-id", type=UUID, required=True)
    parser.add_argument("--address-file", type=Path, required=True)
    parser.add_argument("--ca", type=Path, help="PEM file of certificates that are trusted")
    parser.add_argument("--warm", metavar="MASTER", help="start and prime Spark, and wait")
    parser.add_argument(
        "--low-priority", action="store_true", help="leave CPU time to others until a job comes"
    )
    parser.add_argument("--ready-file", type=Path, help="made when a warm runner is primed")
    parser.add_argument("--reuse", type=int, default=1, help="how many runners the process serves")
    parser.add_argument("--shared", action="store_true", help="serve runners at the same time")
    parser.add_argument("--memory", default="2g", help="heap of the JVM, with --shared")
    parser.add_argument(
        "--jars", default="[]", help="JSON: path and sha256 of each jar that a warm session has"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
