"""The NATS wire protocol, sans-I/O: bytes to commands and commands to bytes, with no socket, clock or loop in sight."""
