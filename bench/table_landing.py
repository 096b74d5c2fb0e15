"""Measure how one process lands a stream's backlog of JSON messages in a table of typed columns.

    python -m bench.table_landing [--messages 500000] [--rounds 3]

Starts midge with JetStream on loopback and fills a stream with messages of 100 bytes. Each round
lands all of them in a new table. Prints the best round: messages a second, and the CPU time of the
landing process for a message; ends with 1 when that is too much.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from bench.servers import Command, running
from midge.client.client import NatsClient
from midge.client.jetstream import JetStream
from midge.client.options import ClientOptions
from midge.protocol.client_side import publish_frame
from midge.tables import create_table, land

STREAM = "BENCH"
CPU_US_MAX = 6.7
"""Most CPU time for a message: 150,000 a second from one process."""
_COLUMNS = {
    "id": "int64",
    "name": "string",
    "amount": "double",
    "paid": "boolean",
    "at": "string",
}
_SIZE_BYTES = 100


def main() -> int:
    """Land the stream in turn; return the exit code."""
    parser = argparse.ArgumentParser(description="Measure the landing of a stream in a table.")
    parser.add_argument("--messages", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with running(
            Command("midge", (sys.executable, "-m", "midge.server")), jetstream=True
        ) as server:
            url = f"nats://{server.address.host}:{server.address.port}"
            fill(url, arguments.messages)
            rounds = [
                measure(url, folder / f"table-{number}", arguments.messages)
                for number in range(arguments.rounds)
            ]
    cpu_us, rate = min(each[0] for each in rounds), max(each[1] for each in rounds)
    print(f"{rate:,.0f} messages/s, {cpu_us:.2f} us CPU for a message (at most {CPU_US_MAX})")
    return int(cpu_us > CPU_US_MAX)


def payload(number: int) -> bytes:
    """Return a JSON object of 100 bytes."""
    text = b'{"id":%d,"name":"customer-%d","amount":%d.25,"paid":true,"at":"2026-03-02T08:00Z"}'
    return (text % (number, number, number % 1000)).ljust(_SIZE_BYTES)


def fill(url: str, count: int) -> None:
    """Publish `count` messages over ten subjects."""
    options = ClientOptions(ClientOptions.parse({"servers": url}).servers)
    with NatsClient(options) as client:
        jetstream = JetStream(client)
        jetstream.call(f"STREAM.CREATE.{STREAM}", {"name": STREAM, "subjects": ["orders.>"]})
        for start in range(0, count, 1000):
            numbers = range(start, min(start + 1000, count))
            frames = (publish_frame(b"orders.%d" % (n % 10), b"", b"", payload(n)) for n in numbers)
            client.send(b"".join(frames))
            while start % 50_000 == 0 and jetstream.stream_state(STREAM).last_seq < start:
                time.sleep(0.01)
        while jetstream.stream_state(STREAM).last_seq < count:
            time.sleep(0.01)


def measure(url: str, table: Path, count: int) -> tuple[float, float]:
    """Land the stream; return the microseconds of CPU time for a message, and the rate."""
    create_table(str(table), STREAM, url, columns=_COLUMNS)
    begun_s, cpu_s = time.perf_counter(), time.process_time()
    landed = land(str(table), url)
    cpu_us = (time.process_time() - cpu_s) / count * 1e6
    rate = count / (time.perf_counter() - begun_s)
    if (landed.rows, landed.quarantined) != (count, 0):
        sys.exit(f"expected {count} rows, got {landed}")
    return cpu_us, rate


if __name__ == "__main__":
    sys.exit(main())
