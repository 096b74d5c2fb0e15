"""The streams of one account, and how much it may keep."""
