"""JetStream, pure: streams, consumers and their store.

Nothing here knows a socket, a server or an event loop. The clock, the files and the outgoing side
are arguments, so that a simulation runs the same code as the server.
"""
