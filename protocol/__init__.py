"""The NATS wire protocol, sans-I/O: bytes to commands and back, with no socket, clock or loop."""
