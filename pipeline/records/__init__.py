"""Recorded messages as files."""
