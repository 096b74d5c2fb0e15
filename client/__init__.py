"""A blocking NATS client, and the commands of `midge` that use it: pub, stream, kv and others.

`client.py` has the connection, `jetstream.py` the requests to JetStream, `options.py` a
connection's options; `commands/` has one module for each command. The pipeline uses this client.
Frames are read and written by `protocol/client_side.py`. Spark and Parquet belong into `pipeline/`.
"""
