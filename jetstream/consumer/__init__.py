"""Consumers: who gets which message of a stream, when again, and what has been acknowledged."""
