"""The JetStream API: one module per family of requests, from request bytes to answer bytes."""
