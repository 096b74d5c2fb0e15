"""Compare midge with nats-server: what `make bench` runs. Writes RESULTS.md and README's table.

Both servers are the ones beside this Python; every option of load.py may be given.
"""

import sys

from bench import load, speed_table


def main() -> int:
    """Run all scenarios unless told otherwise; 1 when one of them failed."""
    defaults = ["--a-name", "midge", "--b-name", "nats-server"]
    whole = "--only" not in sys.argv
    if whole:  # a partial run must not replace the page of a whole one
        defaults += ["--markdown", str(speed_table.RESULTS)]
    failed = load.main([*defaults, *sys.argv[1:]])
    if whole and not failed:
        speed_table.main()
    return failed


if __name__ == "__main__":
    sys.exit(main())
