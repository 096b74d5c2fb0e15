"""Source and sink ride out kills of Spark's executors, each of which has one core."""

import os
import random
import signal
import time

import pytest

from tests.pipeline.kills import PROGRESS_S, Copying
from tests.support.processes import command_of


@pytest.fixture(params=["midge", "real"])
def copying(request, spark_cluster, make_nats_server, tmp_path):
    server = make_nats_server(command=command_of(request.param))
    made = Copying(server, tmp_path, spark_cluster.url)
    yield made
    made.close()


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.full)])
def test_kills_of_executors(copying, spark_cluster, kills):
    def kill_executor():
        deadline = time.monotonic() + PROGRESS_S
        while not (found := spark_cluster.executors()):
            assert time.monotonic() < deadline, copying.log()
            time.sleep(0.1)
        os.kill(random.choice(found), signal.SIGKILL)

    copying.kill(kill_executor, kills)
    copying.require_exact()
