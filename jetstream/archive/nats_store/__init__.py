"""The files of a nats-server store directory, for reading only."""
