"""Recording by listening, and replaying."""
