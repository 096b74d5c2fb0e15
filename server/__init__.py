"""The asyncio shell around the protocol and the SubList: listener, connections, router, configuration, command line."""
