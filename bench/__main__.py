"""Compare midge with nats-server: what `make bench` runs. Writes RESULTS.md and README's table.

Both servers are the ones installed beside this Python; all options of load.py are accepted.
"""

import sys

from bench import load, speed_table


def main() -> int:
    """Run all scenarios, or the chosen ones; return 1 if one of them failed."""
    defaults = ["--b-name", "nats-server"]
    is_pure = "--pure" in sys.argv
    if not is_pure:
        defaults += ["--a-name", "midge"]
    is_whole = "--only" not in sys.argv and not is_pure
    if is_whole:  # a partial run must not replace the page of a whole one
        defaults += ["--markdown", str(speed_table.RESULTS)]
    failed = load.main([*defaults, *sys.argv[1:]])
    if is_whole and not failed:
        return speed_table.main()
    return failed


if __name__ == "__main__":
    sys.exit(main())
