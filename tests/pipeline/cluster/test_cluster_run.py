"""`midge pipeline run` on a cluster, as a user submits it: both executors work, nothing is lost."""

import json
import subprocess
import sys
from collections import Counter

from midge.pipeline.fleet.fleet import build_fleet
from midge.pipeline.fleet.recorded import Simulation
from tests.pipeline.cluster.conftest import BOTH_EXECUTORS

RUN_S = 1700


def test_pipeline_run_uses_both_executors(spark_cluster, tmp_path):
    simulation = Simulation(build_fleet(vans=6), 60.0).run()
    simulation.write(tmp_path / "records")
    events = tmp_path / "events"
    events.mkdir()
    settings = {
        **BOTH_EXECUTORS,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    command = [sys.executable, "-m", "midge", "pipeline", "run", "--master", spark_cluster.url]
    command += ["--records", tmp_path / "records", "--lake", tmp_path / "lake"]
    command += [f"--spark={key}={value}" for key, value in settings.items()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"{simulation.truth.total:,} messages from" in done.stdout
    tasks = tasks_by_executor(events)
    assert len(tasks) == 2, tasks
    assert min(tasks.values()) >= sum(tasks.values()) // 8


def tasks_by_executor(directory):
    """Count the tasks that each executor ended, from Spark's own log of events."""
    (log,) = directory.iterdir()
    events = (json.loads(line) for line in log.read_text().splitlines())
    return Counter(
        event["Task Info"]["Executor ID"]
        for event in events
        if event["Event"] == "SparkListenerTaskEnd"
    )
