"""The log: the set-up of structlog, formats, files and limits."""
