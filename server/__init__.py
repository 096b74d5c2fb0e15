"""The asyncio server around the protocol, the SubList and JetStream.

Sockets, the loop, the clock, files, logs, configuration and decisions about clients belong here.
Wire formats belong into `protocol/`, matching into `sublist/`, and the rules of streams and
consumers into `jetstream/`, because these run without a loop.
"""
