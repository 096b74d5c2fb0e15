"""`python -m midge.server` is `midge-server`."""

import sys

from midge.server.cli import server_main

sys.exit(server_main())
