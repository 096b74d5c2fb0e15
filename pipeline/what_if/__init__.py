"""What a change of subscriptions would do to recorded traffic."""
