"""Interfaces of JetStream to the outside world: the clock, and the sink for its messages."""
