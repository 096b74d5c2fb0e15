"""Configurations of streams and consumers: their keys, defaults, checks and rules of change."""
