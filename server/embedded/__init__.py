"""The server within a program: in its own loop or in a thread."""
