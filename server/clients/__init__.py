"""Byte streams and the clients on them: channel, commands, back-pressure, turns, keepalive.

What every connection does belongs here. The decisions about a connection (admission, permissions,
limits) belong into `server/broker`, the way of a message into `server/routing`.
"""
