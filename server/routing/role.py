"""The role of a client to the server, independent of the listener that accepted it."""

from enum import IntEnum


class Role(IntEnum):
    """The roles; `Client.role` holds one as a C integer.

    That of a link is what the server at the other end is to this one, whichever has connected.
    """

    CLIENT = 0
    SYSTEM = 1
    JETSTREAM = 2
    LEAF = 3
    ROUTE = 4
    WORKER = 5
    HUB = 6


BEHIND_ROUTES = "~"
LAST_CHOICE = "_"
"""Where the members of a queue group are that a worker announces to the others, as origin of that
interest: on other servers of the cluster, or behind leaf nodes, which are the last choice, or both.
"""
