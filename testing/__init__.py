"""The server as a test fixture: pytest plugin, fault injection and a clock that tests can turn."""
