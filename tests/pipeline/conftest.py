"""What the pipeline's tests share: one Spark session, and NATS servers with JetStream."""

import pytest

from midge.pipeline.session import spark_session


def pytest_configure(config):
    """Declare this folder's markers."""
    config.addinivalue_line("markers", "spark: needs a Spark session, about eight seconds to start")
    config.addinivalue_line("markers", "cluster: starts a standalone Spark cluster on loopback")


def pytest_collection_modifyitems(items):
    """Mark what uses the Spark session and give it the time that a cold JVM takes."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
            item.add_marker(pytest.mark.timeout(120))


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """One Spark session on two cores for the whole run; never stop it in a test."""
    session = spark_session(
        "midge-tests",
        "local[2]",
        {
            # Tests are many short queries: code that compiles fast beats code that runs fast.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            "spark.driver.memory": "1g",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            "spark.local.dir": str(tmp_path_factory.mktemp("spark")),
        },
    )
    yield session
    session.stop()
