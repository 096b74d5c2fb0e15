"""Micro benchmarks: the cost of one operation of the core in process, compiled and interpreted."""
