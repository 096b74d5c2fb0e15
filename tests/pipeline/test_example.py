"""The example of a Spark job runs with its own tests."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.unit.testing.test_plugin import PLUGIN

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow
@pytest.mark.spark
def test_the_spark_job(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *PLUGIN, "test_job.py"],
        cwd=root / "examples/spark_job",
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr
