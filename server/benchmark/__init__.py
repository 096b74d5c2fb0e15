"""`midge bench`: a NATS client that measures a server; it imports nothing of the server."""
