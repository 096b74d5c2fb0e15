"""Where messages are kept: in memory or in a log on disk, behind one interface."""
