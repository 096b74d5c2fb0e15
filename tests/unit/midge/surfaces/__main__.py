"""Bring the lists up to date with the tree: `python -m tests.unit.midge.surfaces [--drop]`."""

from __future__ import annotations

import sys

from tests.unit.midge.surfaces.lists import collect, main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], collect))
