"""`python -m midge` is `midge`."""

import sys

from midge.cli import main

sys.exit(main())
