"""Source and sink ride out kills of the server and of Spark's driver: nothing twice, nothing lost.

`cluster/test_cluster_kills.py` kills executors.
"""

import pytest

from tests.pipeline.kills import Copying
from tests.support.processes import command_of


@pytest.fixture(params=["midge", "real"])
def copying(request, make_nats_server, tmp_path):
    made = Copying(make_nats_server(command=command_of(request.param)), tmp_path, "local[2,100]")
    yield made
    made.close()


@pytest.mark.full
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("victim", ["server", "driver"])
def test_20_kills(copying, victim):
    copying.kill(getattr(copying, f"kill_{victim}"), 20)
    copying.require_exact()
