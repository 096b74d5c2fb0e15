"""Micro benchmarks: what one operation of the core costs in process, compiled and interpreted."""
