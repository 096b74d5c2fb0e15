"""`spark-submit` brings jobs to a cluster, with midge where the executors find it."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from midge.pipeline.session import find_java, wrapped_home
from midge.tables import create_table, land
from tests.support.processes import CHECKOUT, command_of

SUBMIT_S = 1700


@pytest.fixture(params=["midge", "real"])
def nats_server(request, make_nats_server):
    return make_nats_server(command=command_of(request.param))


@pytest.fixture
def submit(spark_cluster, nats_server):
    """Return a function that submits a program and returns the table that it prints."""

    def run(program, *arguments):
        done = subprocess.run(
            [
                *(Path(pyspark.__file__).parent / "bin" / "spark-submit", "--master"),
                *(spark_cluster.url, "--executor-memory", "512m"),
                *("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.ui.enabled=false"),
                *("--conf", f"spark.executorEnv.PYTHONPATH={CHECKOUT}", program, *arguments),
            ],
            env={
                **os.environ,
                "JAVA_HOME": str(wrapped_home(find_java())),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "PYSPARK_PYTHON": sys.executable,
                "PYTHONPATH": str(CHECKOUT),
                "NATS_URL": nats_server.url,
            },
            capture_output=True,
            text=True,
            timeout=SUBMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        lines = [line.strip("|").split("|") for line in done.stdout.splitlines() if line[:1] == "|"]
        return [[cell.strip() for cell in line] for line in lines]

    return run


def test_the_example_reads_a_stream(submit, nats_server, make_stream):
    orders = make_stream(nats_server)
    orders.publish(5, payload=b'{"item": "tea", "quantity": 2, "price": 3}')
    orders.publish(4, payload=b'{"item": "cake", "quantity": 1, "price": 5}')
    assert submit(CHECKOUT / "examples" / "spark_job" / "job.py") == [
        ["item", "amount"],
        ["cake", "20"],
        ["tea", "30"],
    ]


def test_a_job_joins_a_table_with_a_stream_and_writes_to_another(
    submit, nats_server, make_stream, tmp_path
):
    orders = make_stream(nats_server)
    orders.publish(60, subject=b"orders.%d", payload=b'{"n": %d}')
    url = str(tmp_path / "orders")
    create_table(url, "ORDERS", server=nats_server.url, columns={"n": "int64"})
    land(url, nats_server.url)
    orders.publish(60, subject=b"orders.%d", start=60)
    make_stream(nats_server, "COPIES", ["copies.>"])
    printed = submit(CHECKOUT / "tests" / "pipeline" / "cluster" / "joining.py", url)
    assert printed == [["rows", "n"], ["60", str(sum(range(60)))]]
    copies = make_stream(nats_server, "COPIES", ["copies.>"])  # a connection that is not stale
    assert copies.state().messages == 60
