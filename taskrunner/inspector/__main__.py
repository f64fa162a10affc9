"""`python -m taskrunner.inspector`: started by a JobManager, ends with its standard input."""

import argparse
import os
import sys
from pathlib import Path

from taskrunner import logs
from taskrunner.inspector.channel import Channel
from taskrunner.inspector.request_handler import RequestHandler
from taskrunner.snapshots import copies
from taskrunner.spark.session import connector_jars, session

log = logs.get("inspector")


def main() -> int:
    arguments = _parser().parse_args()
    logs.configure()
    channel = Channel.over_standard_streams()
    chosen = session.settings(
        name="headgate inspector",
        master=arguments.master,
        parallelism=2,
        extra={},
        jars=connector_jars.from_argument(arguments.jars),
    )
    with copies.scratch(arguments.scratch) as home:
        spark = session.open_session(chosen)
        try:
            log.info("ready", pid=os.getpid(), spark=spark.version)
            channel.ready(spark.version)
            handler = RequestHandler(spark, home)
            for question in channel.questions():
                channel.answer(question.id, handler.answer(question))
        finally:
            session.close_session(spark)
    log.info("ended")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="taskrunner.inspector", description=__doc__)
    parser.add_argument("--scratch", type=Path, required=True, help="where copies are made")
    parser.add_argument("--master", default="local[2]", help="Spark's master")
    parser.add_argument("--jars", default="[]", help="JSON: path and sha256 of each jar")
    return parser


if __name__ == "__main__":
    sys.exit(main())
