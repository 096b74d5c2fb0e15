"""Compare midge with nats-server and write RESULTS.md: what `make bench` runs.

Both servers are the ones beside this Python; every option of load.py may be given.
"""

import sys
from pathlib import Path

from bench import load

FOLDER = Path(__file__).resolve().parent


def main() -> int:
    """Run all scenarios unless told otherwise; 1 when one of them failed."""
    defaults = ["--b-name", "nats-server"]
    is_pure = "--pure" in sys.argv
    if not is_pure:
        defaults += ["--a-name", "midge"]
    if "--only" not in sys.argv and not is_pure:
        # A partial run must not replace the page of a whole one.
        defaults += ["--markdown", str(FOLDER / "RESULTS.md")]
    return load.main([*defaults, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
