"""The FastStream service of the examples, live: recorded, put into a lake, compared with SQL.

`make test-cluster` installs FastStream.
"""

import os
import subprocess
import sys

from tests.pipeline.cluster.test_cluster_connect import SITE
from tests.pipeline.service.oracle import by_hand, in_lake, plain
from tests.pipeline.service.recording import record
from tests.support.processes import CHECKOUT

RUN_S = 1700


def midge(*words):
    command = [sys.executable, "-m", "midge", "pipeline", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_recorded_service_as_a_user_would_analyse_it(tmp_path):
    records, lake, report = (tmp_path / name for name in ("records", "lake", "report.html"))
    path = f"{CHECKOUT}{os.pathsep}{SITE}"
    record(records, sys.executable, {**os.environ, "PYTHONPATH": path})
    midge("run", "--master", "local[2]", "--records", records, "--lake", lake)
    midge("report", "--lake", lake, "--output", report)
    gold = in_lake(lake)
    for name, expected in by_hand(records).items():
        assert plain(gold[name]) == plain(expected), name
    assert ">packers<" in report.read_text()
