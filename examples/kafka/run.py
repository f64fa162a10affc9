"""`make example-kafka`: a broker, a server, bids for half a minute, and what comes out.

Everything that it starts ends with it. The broker is that of the tests (`tests/support/kafka.py`).
"""

import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import yaml

from tests.support.kafka import Broker, a_broker
from tests.support.server import ServerProcess, eventually

GRAPH = Path(__file__).with_name("revenue.yaml")
BIDS_A_SECOND = 20


def main(seconds: int) -> None:
    data = Path(".headgate") / "example-kafka"
    with a_broker() as broker:
        print(f"a Kafka broker answers at {broker.servers}")
        for topic in ("bids", "revenue"):
            broker.create(topic)
        server = ServerProcess(data, "--connectors", "kafka")
        try:
            server.start()
            print(f"a server is ready at {server.url}: open it in a browser")
            run(broker, server, seconds)
        finally:
            server.clean_up()


def run(broker: Broker, server: ServerProcess, seconds: int) -> None:
    job = server.submit(yaml.safe_load(GRAPH.read_text().replace("SERVERS", broker.servers)))
    server.until_state(job, "running")
    print(f"job {job} runs; sending {BIDS_A_SECOND} bids a second for {seconds} s")
    end, number = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        broker.send("bids", [bid(number + n) for n in range(BIDS_A_SECOND)])
        number += BIDS_A_SECOND
        time.sleep(1)
    eventually(lambda: bool(broker.records("revenue")), within=60)
    for record in broker.records("revenue"):
        print(record.json)
    print(f"committed to the group: {broker.committed('revenue-example')}")
    server.http.patch(f"/v1/jobs/{job}?mode=cancel")
    server.until_state(job, "cancelled")


def bid(number: int) -> dict[str, object]:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return {"auction": number % 5, "price": number * 37 % 101, "ts": now}


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
