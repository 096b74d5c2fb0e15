"""Streams as tables: the process that lands them, and what it reports."""
