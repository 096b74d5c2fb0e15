"""Streams in nats-server's own formats: snapshots, backups of older servers, store directories."""
