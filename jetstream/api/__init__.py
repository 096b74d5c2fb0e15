"""The JetStream API: one module for each family of requests, from bytes to bytes."""
