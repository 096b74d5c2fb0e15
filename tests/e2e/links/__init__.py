"""Links of every kind, to servers and between workers: what crosses them, and in which form."""
