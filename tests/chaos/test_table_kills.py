"""kill -9 at any moment, also inside of the library's own commit: each batch is there once."""

import multiprocessing
import random
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.unit.taskrunner.tables import (
    DeltaUnderTest,
    IcebergUnderTest,
    an_output,
    expected,
    write,
)

KILLS = 25
MOST_KILLS = 200
"""As many as it takes until a kill came between the table's commit and Spark's."""
MANY = 100_000


def attempt(
    kind: type[DeltaUnderTest] | type[IcebergUnderTest],
    root: Path,
    number: int,
    committed: int,
    last: int,
    told: Connection,
) -> None:
    """What a runner does: it recovers, repeats the batch that had begun, and goes on."""
    table = kind(root)
    output = an_output(table.commits(), number)
    output.recover(last_kept=committed + 1)
    told.send(committed + 1 if output.has(committed + 1) else committed)
    for batch in range(committed + 1, last + 1):
        write(table, output, batch)
        told.send(batch)  # Spark's commit


@pytest.mark.long
@pytest.mark.parametrize("kind", [DeltaUnderTest, IcebergUnderTest], ids=["delta", "iceberg"])
def test_each_batch_is_there_once_whenever_the_process_is_killed(
    kind: type[DeltaUnderTest] | type[IcebergUnderTest], tmp_path: Path
) -> None:
    # the parent opens no table: a process that was forked cannot use the library's threads
    fork = multiprocessing.get_context("fork")
    chance = random.Random(7)
    committed, repeated, exit_code = -1, 0, None
    is_killed, number = True, 0
    while is_killed:
        number += 1
        is_killed = number <= KILLS or (repeated == 0 and number <= MOST_KILLS)
        last = MANY if is_killed else committed + 3
        reader, told = fork.Pipe(duplex=False)
        arguments = (kind, tmp_path, number, committed, last, told)
        process = fork.Process(target=attempt, args=arguments)
        process.start()
        told.close()
        if is_killed:
            repeated += reader.recv() > committed
            reader.poll(120)  # until its first batch
            time.sleep(chance.uniform(0, 0.1))
            process.kill()
        process.join()
        exit_code = process.exitcode
        try:
            while True:
                committed = reader.recv()
        except EOFError:
            reader.close()

    assert exit_code == 0
    assert repeated > 0
    assert kind(tmp_path).ids() == expected(committed)
