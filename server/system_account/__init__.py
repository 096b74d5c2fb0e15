"""The system account: events and requests."""
