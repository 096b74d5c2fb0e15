"""Streams as tables: a stream's messages in a Delta table, exactly once, without Spark."""
