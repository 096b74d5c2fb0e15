"""Spark Connect: source, sink and `transformWithState` from a client that has no Java of its own.

`make test-cluster` installs what a Connect client needs besides PySpark.
"""

import os
import re
import subprocess
import sys

from tests.support.processes import CHECKOUT

SITE = CHECKOUT / "build" / "connect" / "site"
RUN_S = 1700


def counted(server, directory):
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.pipeline.cluster.counting", "local[2]"),
            *(server.url, str(directory)),
        ],
        env={
            **os.environ,
            "PYTHONPATH": f"{CHECKOUT}{os.pathsep}{SITE}",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return sorted(re.findall(r"count \S+ \d+|stored \d+", done.stdout))


def test_state_is_kept_over_runs_of_a_query(nats_server, make_stream, tmp_path):
    orders = make_stream(nats_server)
    make_stream(nats_server, "COPIES", ["copies.>"])
    orders.publish(6, subject=b"orders.a")
    orders.publish(4, subject=b"orders.b")
    first = ["count orders.a 6", "count orders.b 4"]
    assert counted(nats_server, tmp_path) == [*first, "stored 5"]
    # The server has closed the first connection, which did not answer its pings meanwhile.
    make_stream(nats_server).publish(3, subject=b"orders.b")
    assert counted(nats_server, tmp_path) == [*first, "count orders.b 7", "stored 8"]
    copies = make_stream(nats_server, "COPIES", ["copies.>"])
    assert copies.state().messages == 10 + 13
