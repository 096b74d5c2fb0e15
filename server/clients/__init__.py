"""NATS clients: the effects of their commands, what they publish, and what they may get.

The byte stream below a client is in `server/channels`. The decisions about a client (admission,
identity, accounts) belong into `server/broker`, the way of a message into `server/routing`.
"""
