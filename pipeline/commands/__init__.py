"""`midge record`, `midge replay` and `midge pipeline`."""
