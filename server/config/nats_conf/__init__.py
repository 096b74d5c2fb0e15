"""nats-server's configuration files: `x.conf` into the same options as TOML.

Text -> `lexer` -> tokens -> `parser` -> nodes with their places -> `server_keys` -> plain values.
"""

from midge.server.config.nats_conf.read import read_conf_file

__all__ = ["read_conf_file"]
