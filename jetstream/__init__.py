"""JetStream, pure: streams, consumers and their store.

No socket, server or event loop is known here. The clock, the files and the outgoing side are handed
in, so that a simulation drives the same code as the server.
"""
