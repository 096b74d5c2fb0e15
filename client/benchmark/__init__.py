"""`midge bench`: a NATS client that measures a server; it counts messages and keeps none."""
