"""`midge pub`, `stream`, `consumer`, `kv` and so on: a NATS client for people and scripts."""
