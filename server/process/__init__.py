"""The server as a process: command line, daemon, signals, files."""
