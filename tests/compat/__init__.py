"""Test suites of NATS clients, run against any server executable."""
