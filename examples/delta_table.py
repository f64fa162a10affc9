"""A stream into a Delta table, exactly once: `make example-delta`.

Starts a server of its own, runs `examples/orders-to-delta.yaml` until it is finished, and reads
the table with the `deltalake` library.
"""

import sys
import tempfile
from pathlib import Path

import deltalake
import yaml

from jobmanager.client.client import HeadgateClient
from jobmanager.demo_server import DemoServer

ROWS = 5000


def run(directory: Path) -> bool:
    graph = yaml.safe_load((Path(__file__).parent / "orders-to-delta.yaml").read_text())
    server = DemoServer(directory)
    try:
        with HeadgateClient(server.url) as client:
            server.await_ready(client)
            job = client.submit(graph)
            state = client.wait_until_ended(job, timeout=300)
    finally:
        server.shut_down()
    table = deltalake.DeltaTable(server.data_root / "tables" / "orders")
    ids = table.to_pyarrow_table(columns=["id"]).column("id").to_pylist()
    print(f"job {job} is {state}")
    print(f"the table has {len(ids)} rows, {len(set(ids))} different ids")
    for entry in table.history(3):
        print(f"version {entry['version']}: {entry.get('userMetadata')}")
    return sorted(ids) == list(range(ROWS))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="headgate-delta-") as home:
        sys.exit(0 if run(Path(home) / "demo") else 1)
