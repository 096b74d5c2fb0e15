"""The effect of a change of subscriptions on recorded traffic."""
