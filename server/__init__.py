"""The asyncio shell around protocol and SubList: listener, connections, router, configuration."""
