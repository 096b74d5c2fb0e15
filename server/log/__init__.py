"""The log: structlog's set-up, formats, files and limits."""
