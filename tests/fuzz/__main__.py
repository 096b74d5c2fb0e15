"""Go on fuzzing for some minutes: `python -m tests.fuzz --minutes 10`.

Every round draws anew. A failing script is made as small as it gets and printed, and hypothesis
remembers it in `.hypothesis`, so that the tests meet it again first.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time

from hypothesis import settings

EXAMPLES_PER_ROUND = 500


def main() -> int:
    """Run rounds of every fuzz test until the time is up; a failure ends with its traceback."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz the core.")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default: 10)")
    minutes = parser.parse_args().minutes
    logging.getLogger("midge").setLevel(logging.CRITICAL)
    settings.register_profile("long", max_examples=EXAMPLES_PER_ROUND, derandomize=False)
    settings.load_profile("long")
    from tests.fuzz import test_core

    started = time.monotonic()
    rounds = 0
    while time.monotonic() - started < minutes * 60:
        test_core.test_no_split_changes_what_anybody_is_sent()
        test_core.test_who_reads_slowly_harms_nobody_else()
        rounds += 1
    scripts = rounds * 2 * EXAMPLES_PER_ROUND
    print(f"{scripts:,} scripts in {time.monotonic() - started:,.0f} s: nothing found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
