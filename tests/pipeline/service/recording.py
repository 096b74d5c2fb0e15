"""Record the example of a FastStream service: `recording.py DIRECTORY PYTHON`.

`PYTHON` has FastStream, such as `build/examples/venv/bin/python`. `records/` beside this file is
what it made, for tests without FastStream.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.processes import CHECKOUT, Server, midge_command


def record(directory, python, environment=None):
    """Run the service and its shops against a server that records into `directory`."""
    flags = ("-js", "--server-name", "shop", "--limits-max-pending-bytes", "1048576")
    flags += ("--record", str(directory), "--recorder-roll-age-s", "0.5")
    with (
        tempfile.TemporaryDirectory() as store,
        Server(midge_command(), flags=(*flags, "-sd", store)) as server,
    ):
        subprocess.run(
            [python, Path(__file__).with_name("traffic.py"), server.url],
            cwd=CHECKOUT,
            env=environment,
            timeout=1700,
            check=True,
        )


if __name__ == "__main__":
    record(Path(sys.argv[1]).resolve(), sys.argv[2])
