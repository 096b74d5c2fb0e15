"""Subjects against patterns in Spark."""
