"""The store of file streams: one log for all streams of a directory, synced group by group."""
