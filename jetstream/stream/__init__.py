"""One stream: what it takes, what it keeps, and how its messages are read."""
