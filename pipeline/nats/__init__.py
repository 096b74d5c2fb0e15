"""The NATS side: a client, its options and offsets, JetStream as a source."""
