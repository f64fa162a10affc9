"""An attempt in a process of its own that is killed after a step of a join.

python -m tests.integration.spark.joining_driver <step>   < (root, job, graph, files)
"""

import ast
import sys
from pathlib import Path
from uuid import UUID

from jobmanager.core.ids import JobId
from taskrunner.snapshots.layout import JobLayout
from tests.integration.spark.conftest import a_session
from tests.integration.spark.contract_sinks import Files, kill_self
from tests.integration.spark.fed_files import wait_until_read
from tests.integration.spark.jobs import JobUnderTest


def main() -> None:
    [step] = sys.argv[1:]
    root, job_id, document, files = ast.literal_eval(sys.stdin.read())
    Files.when(step, kill_self)
    with a_session() as spark:
        job = JobUnderTest(spark, Path(root))
        job.id = JobId(UUID(job_id))
        job.layout = JobLayout(job.root / "jobs" / job.id.hex)
        job.define(*document["vertices"])
        job.start()
        wait_until_read(job, files)
        job.complete(job.checkpoint(1))


if __name__ == "__main__":
    main()
