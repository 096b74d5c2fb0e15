"""A standalone Spark cluster on loopback: one master, two workers of one core each."""

import os
import re
import subprocess
import time
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from midge.pipeline.session import find_java, spark_session, wrapped_home

FOLDER = "tests/pipeline/cluster/"
"""How the node ids of this folder begin; paths compared for 14,000 items take 0.7 s."""
STARTUP_S = 900
BOTH_EXECUTORS = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.network.timeout": "900s",
    "spark.sql.shuffle.partitions": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "900s",
}
"""Settings that wait for both executors, which a busy machine starts in minutes."""
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"


def pytest_collection_modifyitems(items):
    """Mark everything in this folder: it starts seven processes and takes its time."""
    for item in items:
        if item.nodeid.startswith(FOLDER):
            item.add_marker("cluster")
            item.add_marker(pytest.mark.timeout(3600))


class Cluster:
    """The processes of a cluster, each with a log in `folder`."""

    def __init__(self, folder):
        self._folder = folder
        self._processes = []
        self._environment = {
            **os.environ,
            "JAVA_HOME": str(wrapped_home(find_java())),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        master = self._start("master", _MASTER, "--host", "127.0.0.1", "--port", "0")
        self.url = self._wait_for(master, r"(spark://127\.0\.0\.1:\d+)")
        for number in (1, 2):
            log = self._start(
                f"worker{number}",
                _WORKER,
                *("--host", "127.0.0.1", "--cores", "1", "--memory", "1g"),
                *("--work-dir", str(folder / f"work{number}"), self.url),
            )
            self._wait_for(log, r"(Successfully registered with master)")

    def _start(self, name, main_class, *arguments):
        spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
        log = self._folder / f"{name}.log"
        with log.open("wb") as output:
            self._processes.append(
                subprocess.Popen(
                    [spark_class, main_class, "--webui-port", "0", *arguments],
                    stdout=output,
                    stderr=output,
                    env=self._environment,
                    cwd=self._folder,
                )
            )
        return log

    def _wait_for(self, log, pattern):
        """Return what `pattern` captures in a log, as soon as it is there."""
        deadline = time.monotonic() + STARTUP_S
        while time.monotonic() < deadline and self._processes[-1].poll() is None:
            found = re.search(pattern, log.read_text(errors="replace"))
            if found:
                return found[1]
            time.sleep(0.1)
        text = log.read_text(errors="replace")
        self.stop()
        return pytest.fail(f"{log.name}: {pattern} did not come up:\n{text[-3000:]}")

    def executors(self):
        """Return the process ids of the executors there are now."""
        workers = {process.pid for process in self._processes[1:]}
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
                command = (place / "cmdline").read_text()
            except OSError:  # it has ended
                continue
            if parent in workers and "CoarseGrainedExecutorBackend" in command:
                found.append(int(place.name))
        return found

    def stop(self):
        """End workers and master; executors end with their workers."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory):
    """A running cluster; `url` is what `--master` takes."""
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def cluster_spark(spark_cluster):
    """A Spark session on the cluster, with both executors there before the first job.

    It holds all cores, so it ends with its module.
    """
    assert SparkSession.getActiveSession() is None, "run these alone: pytest -m cluster"
    session = spark_session(
        "midge-cluster-tests",
        spark_cluster.url,
        BOTH_EXECUTORS,
    )
    yield session
    session.stop()
