"""The streams of one account, and its limits."""
