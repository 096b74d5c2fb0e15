"""midge: a NATS server in Python, as a daemon, as a library and as the head of a data pipeline."""

__version__ = "0.1.0"
