"""JSON as nats-server reads and writes it, which is as Go does: its wording, its escapes."""
