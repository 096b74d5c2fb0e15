"""Go on fuzzing for some minutes: `python -m tests.fuzz --minutes 10`.

Every round draws new programs. A failing script is made as small as it gets and printed, and
hypothesis remembers it in `.hypothesis`, so that the next run meets it again first.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import sys
import time

from hypothesis import settings

EXAMPLES_PER_ROUND = 500
HANG_S = 900.0
"""A round of 1,332 scripts takes 10 to 90 s, and making a failing one small 300 s; one that has not
ended by then reports where it is and ends the run."""


def main() -> int:
    """Run rounds of every fuzz test until the time is up; a failure ends with its traceback."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Fuzz the core.")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default: 10)")
    minutes = parser.parse_args().minutes
    logging.getLogger("midge").setLevel(logging.CRITICAL)
    settings.register_profile("long", max_examples=EXAMPLES_PER_ROUND, derandomize=False)
    settings.load_profile("long")
    from tests.fuzz import test_core, test_framing

    started = time.monotonic()
    scripts = 0
    while time.monotonic() - started < minutes * 60:
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        test_core.test_no_split_changes_what_anybody_is_sent()
        test_core.test_who_reads_slowly_harms_nobody_else()
        test_framing.test_no_split_of_a_framing_changes_what_anybody_is_sent()
        test_framing.test_a_damaged_framing_harms_nobody_else()
        scripts += 2 * (EXAMPLES_PER_ROUND + test_framing.FRAMED.max_examples)
        print(f"\r{scripts:,} scripts", end="", file=sys.stderr, flush=True)
    faulthandler.cancel_dump_traceback_later()
    print(file=sys.stderr)
    print(f"{scripts:,} scripts in {time.monotonic() - started:,.0f} s: nothing found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
