"""An attempt in a process of its own, which is killed after a step of a batch.

python -m tests.integration.spark.contract_driver <sink> <step>   < (root, job, graph, batch)
"""

import ast
import sys
from pathlib import Path
from uuid import UUID

from jobmanager.core.ids import JobId
from taskrunner.snapshots.layout import JobLayout
from taskrunner.spark.run.batch_sinks import FencedBatches
from tests.integration.spark.conftest import a_session
from tests.integration.spark.contract_sinks import SINKS, kill_self
from tests.integration.spark.jobs import JobUnderTest


def main() -> None:
    name, step = sys.argv[1:]
    root, job_id, document, batch = ast.literal_eval(sys.stdin.read())
    current = [-1]

    def kill_in_that_batch() -> None:
        if current[0] >= batch:
            kill_self()

    write = FencedBatches.write

    def noting(self: FencedBatches, rows: object, number: int) -> int:
        current[0] = number
        return write(self, rows, number)  # type: ignore[arg-type] # as it came

    setattr(FencedBatches, "write", noting)  # noqa: B010 - mypy refuses the assignment
    SINKS[name].when(step, kill_in_that_batch)
    with a_session() as spark:
        job = JobUnderTest(spark, Path(root))
        job.id = JobId(UUID(job_id))
        job.layout = JobLayout(job.root / "jobs" / job.id.hex)
        job.define(*document["vertices"])
        job.start()
        job.wait(lambda: False, seconds=240)


if __name__ == "__main__":
    main()
