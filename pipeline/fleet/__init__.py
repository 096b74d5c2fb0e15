"""Generated traffic of a fleet, live or recorded."""
