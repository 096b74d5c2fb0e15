"""The commands of `midge` that are clients of any NATS server: pub, stream, kv and others."""
