"""Byte streams: a transport, its input in fair turns, its output and back-pressure, and its end.

A client, a link to another server and the session of any other protocol are owners of such a
stream: they give a Channel a parser, and extend ChannelOwner. Nothing here knows a command; the
clients of NATS's protocol are in `server/clients`, links in `server/links`.
"""
