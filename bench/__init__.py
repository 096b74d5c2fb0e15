"""Benchmarks of midge: the side-by-side load, the scale curves and the micro benchmarks.

Nothing here is installed with midge, and nothing in midge imports from here.
"""
