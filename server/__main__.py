"""`python -m midge.server` is `midge-server`."""

import sys

from midge.server.process.cli import server_main

sys.exit(server_main())
