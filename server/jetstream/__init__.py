"""JetStream in the server: `midge.jetstream` wired to accounts, the router and the event loop."""
