"""Consumers: delivery, redelivery and acknowledgement of a stream's messages."""
