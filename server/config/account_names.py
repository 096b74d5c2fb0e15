"""The accounts that every server has."""

GLOBAL_ACCOUNT = "$G"
"""The account of clients and users that are in no other."""

SYSTEM_ACCOUNT = "$SYS"
"""The account of the server's own events and requests, unless another one is configured."""
